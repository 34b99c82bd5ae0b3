"""What Lambda calls: `webmill publish` without a machine of one's own (deploy/aws)."""
