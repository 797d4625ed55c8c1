"""The routes of the API, one router for each subject; their docstrings become descriptions of the OpenAPI document."""
