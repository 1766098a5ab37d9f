package fetch

// Lab returns what only tests change.
func (c *Config) Lab() *lab { return &c.lab }
