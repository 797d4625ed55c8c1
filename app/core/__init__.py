"""What prober and weeder share: domain model, configuration, runtime, reporting, and the adapters to the outside."""
