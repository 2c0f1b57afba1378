"""An assistant as a LangGraph graph, served by Studio: retrieval, a tool, a review by a person, no network."""
