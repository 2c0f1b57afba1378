"""Names of attributes, and of providers, in the conventions that spans follow.

Law of this room: ``gen_ai.*`` are those of the GenAI semantic conventions v0.1.0 (the first release apart from the
general ones; the package of constants does not have them yet). What they have no name for is ``studio.*``.
"""

from __future__ import annotations

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
DATA_SOURCE = "gen_ai.data_source.id"
TOP_K = "gen_ai.retrieval.top_k"
TOOL = "gen_ai.tool.name"
CALL_ID = "gen_ai.tool.call.id"
ERROR = "error.type"

# Only where what was said is wanted.
SYSTEM = "gen_ai.system_instructions"
INPUT = "gen_ai.input.messages"
OUTPUT = "gen_ai.output.messages"
ARGUMENTS = "gen_ai.tool.call.arguments"
RESULT = "gen_ai.tool.call.result"
QUERY = "gen_ai.retrieval.query.text"
DOCUMENTS = "gen_ai.retrieval.documents"

#: Counts of tokens as events spell them.
USAGE = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cacheRead": "gen_ai.usage.cache_read.input_tokens",
    "cacheWrite": "gen_ai.usage.cache_write.input_tokens",
    "reasoning": "gen_ai.usage.reasoning.output_tokens",
}

#: Families that the conventions call otherwise.
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}


def provider_name(family: str) -> str:
    """A provider family as the conventions call it."""
    return _PROVIDERS.get(family, family)
