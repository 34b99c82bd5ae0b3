"""What the commands of replay-cdxj-indexing-tools do that ours do not; `cli/dropin` has their flags."""
