"""What the model registry says of one model."""

from __future__ import annotations

import msgspec

_Number = float | int | str | None
_Flag = bool | str | None


class Row(msgspec.Struct, frozen=True, gc=False):
    """One model of the map. Prices are USD per token."""

    litellm_provider: str = ""
    mode: str = ""
    max_input_tokens: _Number = None
    max_output_tokens: _Number = None
    input_cost_per_token: _Number = None
    output_cost_per_token: _Number = None
    cache_read_input_token_cost: _Number = None
    cache_creation_input_token_cost: _Number = None
    supports_function_calling: _Flag = None
    supports_parallel_function_calling: _Flag = None
    supports_tool_choice: _Flag = None
    supports_response_schema: _Flag = None
    supports_vision: _Flag = None
    supports_pdf_input: _Flag = None
    supports_reasoning: _Flag = None
