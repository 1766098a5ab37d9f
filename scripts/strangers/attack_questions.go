package main

import "context"

// attackQuestions asks all that is answered for people, each of which reads records.
var attackQuestions = attack{
	name: "questions", does: "several identities ask for lists of hosts, URLs and files without a pause",
	make: func(ctx context.Context, t *target) error {
		urls := func(ctx context.Context, t *target) error {
			return askAll(ctx, t, "status", "urls ", "hosts ", "why http://h0.web.localhost/", "host h0.web.localhost")
		}
		done := make(chan error, 1)
		go func() { done <- urls(ctx, t) }()
		err := askAll(ctx, t, "files", "{}")
		if other := <-done; err == nil {
			err = other
		}
		return err
	},
}
