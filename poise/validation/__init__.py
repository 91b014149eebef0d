"""`poise validate`: how far predictions are from measurements, by source, device, model, engine and metric."""
