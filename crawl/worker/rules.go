package worker

import (
	"context"
	"slices"
	"sync"

	"github.com/apoidea/apoidea/crawl/robots"
)

const (
	// largeRuleSet is the size from which on the rules of an origin are large, mostRules what all large ones take together.
	largeRuleSet = 64 << 10
	mostRules    = 8 << 20
)

// largeRules keeps the rules of those origins that have very many, the ones made last: a robots.txt of 500 KiB makes megabytes of them, a worker holds a
// thousand hosts, and rules are made again within milliseconds.
type largeRules struct {
	slot chan struct{} // one such file is read at once: it takes a processor for that long

	mu    sync.Mutex
	list  []madeRules // the oldest first
	bytes int
}

type madeRules struct {
	origin *origin
	rules  *robots.Rules
}

func newLargeRules() *largeRules { return &largeRules{slot: make(chan struct{}, 1)} }

// get returns the rules of an origin, nil if they are not here.
func (l *largeRules) get(o *origin) *robots.Rules {
	if !o.large {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.index(o); i >= 0 {
		return l.list[i].rules
	}
	return nil
}

func (l *largeRules) index(o *origin) int {
	return slices.IndexFunc(l.list, func(m madeRules) bool { return m.origin == o })
}

// make makes the rules of an origin, and keeps them if they are large. The error is that of ctx.
func (l *largeRules) make(ctx context.Context, o *origin, agent string) (*robots.Rules, error) {
	if len(o.state.Body) >= largeRuleSet/4 {
		select {
		case l.slot <- struct{}{}:
			defer func() { <-l.slot }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	rules := o.state.Rules(agent)
	if o.large = rules.Size() >= largeRuleSet; o.large {
		l.keep(madeRules{o, rules})
	}
	return rules, nil
}

func (l *largeRules) keep(m madeRules) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, m)
	l.bytes += m.rules.Size()
	for l.bytes > mostRules && len(l.list) > 1 {
		l.drop(0)
	}
}

// forget drops the rules of an origin that are no more in force.
func (l *largeRules) forget(o *origin) {
	if !o.large {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.index(o); i >= 0 {
		l.drop(i)
	}
}

func (l *largeRules) drop(i int) {
	l.bytes -= l.list[i].rules.Size()
	l.list = slices.Delete(l.list, i, i+1)
}
