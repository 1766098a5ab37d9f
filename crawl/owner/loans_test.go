package owner

import (
	"fmt"
	"testing"
)

// lendingTo is a table of loans of one host, with a delay of a second, at a time that the test moves.
type lendingTo struct {
	*loans
	t      *testing.T
	now    int64
	leased bool
	owed   int64
}

func newLending(t *testing.T) *lendingTo {
	return &lendingTo{loans: newLoans(1000), t: t, now: 1_000_000}
}

// asks asks for the host, and holds the answer against the one that is expected: lent for so long, or to wait for so long.
func (l *lendingTo) asks(peer string, lent, wait int64) asked {
	l.t.Helper()
	a := l.ask(l.now, "b", peer, l.leased, l.owed)
	if a.number > 0 != (lent > 0) || lent > 0 && a.until-l.now != lent || a.wait != wait {
		l.t.Errorf("%s hears %+v at %d, want %d ms lent, or %d to wait", peer, a, l.now, lent, wait)
	}
	return a
}

// isFree holds the time for which the host may not be leased against the one that is expected.
func (l *lendingTo) isFree(after int64) {
	l.t.Helper()
	if got := l.free(l.now, "b"); got != 0 != (after > 0) || after > 0 && got-l.now != after {
		l.t.Errorf("free at %d, in %d ms; want it in %d", got, got-l.now, after)
	}
}

func (l *lendingTo) returns(peer string, number uint64, want bool) {
	l.t.Helper()
	if _, ok := l.back(l.now, "b", peer, number); ok != want {
		l.t.Errorf("%s returns loan %d: %v", peer, number, ok)
	}
}

// TestLoans drives the loans of one host through their table of states.
func TestLoans(t *testing.T) {
	for name, events := range map[string]func(l *lendingTo){
		"one has it, nobody else": func(l *lendingTo) {
			l.isFree(0)
			a := l.asks("v", loanTime, 0)
			l.isFree(loanTime + 1000)
			l.asks("w", 0, lookFirst)
			l.now += 500
			if again := l.asks("v", loanTime-500, 0); again.number != a.number || again.fresh || !a.fresh {
				l.t.Errorf("asked again: %+v, at first %+v", again, a)
			}
			l.returns("w", a.number, false)
			l.returns("v", a.number+1, false)
			l.returns("v", a.number, true)
			l.returns("v", a.number, false)
			l.isFree(1000)
			l.asks("w", 0, 1000) // the delay
			l.now += 1000
			l.isFree(0)
			if b := l.asks("w", loanTime, 0); b.number <= a.number {
				l.t.Errorf("number %d after %d", b.number, a.number)
			}
		},
		"it ends by itself": func(l *lendingTo) {
			a := l.asks("v", loanTime, 0)
			l.now += loanTime
			l.returns("v", a.number, false)
			l.isFree(1000)
			l.asks("w", 0, 1000)
			l.asks("v", 0, restShare*loanTime)
			l.now += 1000
			l.asks("w", loanTime, 0)
		},
		"not to the same one soon": func(l *lendingTo) {
			a := l.asks("v", loanTime, 0)
			l.now += 2000
			l.returns("v", a.number, true)
			l.asks("v", 0, restShare*2000)
			l.now += 1000
			l.isFree(0) // nor is it kept for that one
			l.now += 4999
			l.asks("v", 0, 1)
			l.now++
			l.asks("v", loanTime, 0)
		},
		"leased: its turn comes with the end of the lease": func(l *lendingTo) {
			l.leased = true
			l.asks("v", 0, lookFirst)
			l.now += 2000
			l.asks("v", 0, 500)
			l.now += 500
			l.leased, l.owed = false, l.now+800
			l.isFree(keptFor)
			l.asks("v", 0, 800)
			l.isFree(800 + keptFor)
			l.now += 800
			l.asks("w", loanTime, 0)
			l.asks("v", 0, 3300/4)
			l.isFree(loanTime + 1000)
		},
		"leased for long": func(l *lendingTo) {
			l.leased = true
			l.asks("v", 0, lookFirst)
			for range 30 {
				l.now += 1000
				l.ask(l.now, "b", "v", true, 0)
			}
			if a := l.asks("v", 0, lookMost); a.waited != 30_000 {
				l.t.Errorf("it has waited for %d ms", a.waited)
			}
		},
		"a turn that is not taken": func(l *lendingTo) {
			l.leased = true
			l.asks("v", 0, lookFirst)
			l.leased = false
			l.now += lookFirst + keptFor
			l.isFree(0)
			l.asks("v", 0, restShare*keptFor)
			l.leased = true
			l.asks("v", 0, restShare*keptFor)
			l.leased = false
			l.isFree(0)
		},
		"who asks during a loan comes behind the next lease": func(l *lendingTo) {
			a := l.asks("v", loanTime, 0)
			l.asks("w", 0, lookFirst)
			l.returns("v", a.number, true)
			l.isFree(1000)
		},
		"left alone for long": func(l *lendingTo) {
			l.owed = l.now + longestTurn + 1
			l.asks("v", 0, longestTurn+1)
			if l.n != 0 {
				l.t.Errorf("%d turns are kept", l.n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLending(t)
			l.t = t
			events(l)
		})
	}
}

// TestLoansAreBounded: of each peer and in all, and what is over is forgotten.
func TestLoansAreBounded(t *testing.T) {
	l := newLoans(1000)
	lent := 0
	for p := range maxLoans/maxLoansEach + 1 {
		for i := range maxLoansEach + 1 {
			if a := l.ask(0, fmt.Sprint(p, " ", i), fmt.Sprint(p), false, 0); a.number > 0 {
				lent++
			} else if a.wait != lookMost {
				t.Fatalf("without room: %+v", a)
			}
		}
	}
	if lent != maxLoans || l.n != maxLoans || len(l.hosts) != maxLoans {
		t.Errorf("%d lent, %d turns of %d hosts", lent, l.n, len(l.hosts))
	}
	if a := l.ask(10, "0 0", "another", false, 0); a.number > 0 || a.wait != lookMost {
		t.Errorf("without room: %+v", a)
	}
	l.sweep(loanTime + restShare*loanTime)
	if l.n != 0 || len(l.hosts) != 0 || len(l.each) != 0 {
		t.Errorf("%d turns of %d hosts and %d peers are left", l.n, len(l.hosts), len(l.each))
	}
}
