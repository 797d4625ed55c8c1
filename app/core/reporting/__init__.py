"""Records of what happened and of what people decided: notices, history, Events, the audit log."""
