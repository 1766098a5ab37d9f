// Package doctor diagnoses configuration and connectivity problems, with or without a running peer,
// and suggests a fix for each. It contacts only what the configuration names (resolvers, seeds,
// entry peers), the peers remembered from the last run, and the local peer. It changes nothing.
package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
)

// Verdict is the severity of a finding.
type Verdict string

// The verdicts.
const (
	// OK: nothing to do.
	OK Verdict = "ok"
	// Warn: the peer works, less well than it could or not for long.
	Warn Verdict = "warn"
	// Fail: the peer does not start, reaches no other peer, or works against its owner.
	Fail Verdict = "fail"
)

// Finding is the result of one check, with a fix unless the verdict is OK. The JSON names are
// stable.
type Finding struct {
	Check   string  `json:"check"`          // name of the check
	Verdict Verdict `json:"verdict"`        // severity
	Found   string  `json:"found"`          // one line of text
	Cure    string  `json:"cure,omitempty"` // the fix; empty if the verdict is OK
}

// Setup is the input of Examine.
type Setup struct {
	Config node.Config // as the peer would be started
	// Built is the build time of the program, a lower bound for the clock; zero if unknown.
	Built time.Time
	Log   *slog.Logger // for messages of libraries
}

// checkTime bounds one check. The longest asks 64 entry points, 16 at a time, 5 s each, having
// looked their names up for 5 s.
const checkTime = 30 * time.Second

// check is one check. When ctx ends it returns what it has found by then.
type check struct {
	name string
	look func(*examination, context.Context) Finding
}

// checks in order: prerequisites first.
var checks = []check{
	{"disk", (*examination).disk},
	{"clock", (*examination).clock},
	{"entry peers", (*examination).entryPeers},
	{"DNS resolver", (*examination).resolver},
	{"contact", (*examination).contact},
	{"reachability", (*examination).reachability},
}

// examination is one run of all checks, which share the answers of peers.
type examination struct {
	Setup
	// status is the status of the running peer, nil if none runs; statusErr is the error of that
	// request.
	status    *control.Status
	statusErr error
	runs      bool
	// kept is the state stored by a peer that does not run.
	kept node.Kept
	// entries is filled by the first check that needs it.
	entries []node.Entry
	scouted bool
	// neighbours are those of the running peer, fetched once.
	neighbours []control.PeerLine
}

// Examine runs all checks in order and passes each finding to tell. It returns the number of failed
// checks, ctx's error if ctx ended first, or why the data directory cannot be read.
func Examine(ctx context.Context, s Setup, tell func(Finding) error) (failed int, err error) {
	e := &examination{Setup: s}
	if err := e.askPeer(ctx); err != nil {
		return 0, err
	}
	for _, c := range checks {
		limited, cancel := context.WithTimeout(ctx, checkTime)
		f := c.look(e, limited)
		cancel()
		if ctx.Err() != nil {
			return failed, ctx.Err()
		}
		f.Check = c.name
		if f.Verdict == Fail {
			failed++
		}
		if err := tell(f); err != nil {
			return failed, err
		}
	}
	return failed, nil
}

// askTime is the timeout for the status of a running peer.
const askTime = 10 * time.Second

// askPeer fetches the status of the running peer, or reads its stored state.
func (e *examination) askPeer(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if e.runs = control.Answers(ctx, e.Config.APIAddr()); !e.runs {
		if e.kept, err = node.ReadKept(e.Config.DataDir); node.InUse(err) {
			return fmt.Errorf("%s is in use by a process that does not respond at %s", e.Config.DataDir, e.Config.APIAddr())
		}
		return err
	}
	c := e.Config.Client()
	defer c.Close()
	if e.status, e.statusErr = c.Status(ctx, false); e.statusErr == nil {
		e.neighbours, e.statusErr = c.Peers(ctx)
	}
	return nil
}

// scout contacts the entry points, once.
func (e *examination) scout(ctx context.Context) []node.Entry {
	if !e.scouted {
		e.scouted = true
		var err error
		if e.entries, err = node.Scout(ctx, &e.Config, e.kept.Remembered, e.Log); err != nil {
			e.Log.Debug("entry peers not contacted", "err", err)
		}
	}
	return e.entries
}

func fine(format string, args ...any) Finding {
	return Finding{Verdict: OK, Found: fmt.Sprintf(format, args...)}
}

func found(v Verdict, what, cure string) Finding { return Finding{Verdict: v, Found: what, Cure: cure} }
