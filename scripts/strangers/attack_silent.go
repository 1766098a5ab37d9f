package main

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
)

// attackSilent opens sockets and says nothing. One that is closed is opened again.
var attackSilent = attack{
	name: "silent", does: "300 sockets are opened, and say nothing",
	make: func(ctx context.Context, t *target) error { return silence(ctx, t, 300) },
}

func silence(ctx context.Context, t *target, sockets int) error {
	to, err := t.socket()
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	for range sockets {
		group.Go(func() {
			for ctx.Err() == nil {
				c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
				if err == nil {
					stop := context.AfterFunc(ctx, func() { _ = c.Close() })
					_, _ = c.Read(make([]byte, 1<<10)) // what the peer says first
					_, _ = c.Read(make([]byte, 1<<10))
					stop()
					_ = c.Close()
				}
				_ = harness.Sleep(ctx, 100*time.Millisecond)
			}
		})
	}
	group.Wait()
	return nil
}
