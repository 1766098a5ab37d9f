package main

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// robots are the rules of the group that concerns us; the longest pattern that matches decides, an
// allow before a disallow.
type robots []rule

type rule struct {
	pattern string
	allow   bool
}

func (w *walk) fetchRobots(ctx context.Context, u *url.URL) (robots, error) {
	resp, body, err := w.get(ctx, u.Scheme+"://"+u.Host+"/robots.txt")
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil || resp.StatusCode >= 500:
		return robots{{pattern: "/"}}, nil // unreachable: everything is forbidden
	case resp.StatusCode != http.StatusOK:
		return nil, nil
	}
	w.walkSitemaps(ctx, string(body))
	return parseRobots(string(body)), nil
}

func parseRobots(text string) robots {
	groups := map[string]robots{}
	var current []string
	inRules := false
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch name {
		case "user-agent":
			if inRules {
				current, inRules = nil, false
			}
			current = append(current, strings.ToLower(value))
			groups[strings.ToLower(value)] = append(robots{}, groups[strings.ToLower(value)]...)
		case "allow", "disallow":
			inRules = true
			for _, a := range current {
				if value != "" {
					groups[a] = append(groups[a], rule{value, name == "allow"})
				}
			}
		}
	}
	if own, ok := groups[agent]; ok {
		return own
	}
	return groups["*"]
}

func (r robots) allow(u *url.URL) bool {
	best, allowed := -1, true
	for _, rule := range r {
		if len(rule.pattern) < best || !matches(rule.pattern, u.RequestURI()) {
			continue
		}
		if len(rule.pattern) > best || rule.allow {
			best, allowed = len(rule.pattern), rule.allow
		}
	}
	return allowed || u.Path == "/robots.txt"
}

// matches reports whether a pattern with * and a $ at its end matches the beginning of a path.
func matches(pattern, path string) bool {
	for i := 0; i < len(pattern); i++ {
		switch {
		case pattern[i] == '*':
			for j := 0; j <= len(path); j++ {
				if matches(pattern[i+1:], path[j:]) {
					return true
				}
			}
			return false
		case pattern[i] == '$' && i == len(pattern)-1:
			return path == ""
		case path == "" || path[0] != pattern[i]:
			return false
		default:
			path = path[1:]
		}
	}
	return true
}
