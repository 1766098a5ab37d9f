package main

import "context"

// attackSilent2000 is attackSilent with more sockets than a process usually may have.
var attackSilent2000 = attack{
	name: "silent2000", does: "2000 sockets are opened, and say nothing", slow: true,
	make: func(ctx context.Context, t *target) error { return silence(ctx, t, 2000) },
}
