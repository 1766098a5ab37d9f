package main

import (
	"context"
	"net/http"
	"net/url"

	"github.com/jimsmart/grobotstxt"
)

// robots is the text of a robots.txt, read by Google's parser: not the one that is checked.
type robots string

func (w *walk) fetchRobots(ctx context.Context, u *url.URL) (robots, error) {
	resp, body, err := w.get(ctx, u.Scheme+"://"+u.Host+"/robots.txt")
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil || resp.StatusCode >= 500:
		return "User-agent: *\nDisallow: /", nil // unreachable: everything is forbidden
	case resp.StatusCode != http.StatusOK:
		return "", nil
	}
	w.walkSitemaps(ctx, grobotstxt.Sitemaps(string(body)))
	return robots(body), nil
}

func (r robots) allow(u *url.URL) bool {
	return grobotstxt.AgentAllowed(string(r), agent, u.String()) || u.Path == "/robots.txt"
}
