// Package doctor examines a set-up, with or without the peer that runs in it: what works, what does
// not, and the cure. It asks only those whom the configuration names (resolvers, seeds, entry
// peers), the peers that the last run remembered, and the peer that runs here. It changes nothing:
// the file that it makes in the data directory, to see whether it can, it takes away again.
package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
)

// Verdict says how bad it is.
type Verdict string

// The verdicts.
const (
	// OK: nothing to do.
	OK Verdict = "ok"
	// Warn: the peer works, less well than it could or not for long.
	Warn Verdict = "warn"
	// Fail: the peer does not start, finds nobody, or works against its owner.
	Fail Verdict = "fail"
)

// Finding is what one check found: a line, and unless it is OK a line with the cure. The JSON names
// are a contract.
type Finding struct {
	Check   string  `json:"check"`          // name of the check
	Verdict Verdict `json:"verdict"`        // how bad it is
	Found   string  `json:"found"`          // a sentence for people
	Cure    string  `json:"cure,omitempty"` // what to do about it; empty if it is OK
}

// Setup is what is examined.
type Setup struct {
	Config node.Config // as the peer would be started
	// ConfigFile is where settings were read from, empty if nowhere. FileError and SettingsError
	// say what was wrong with it, and with the settings as a whole; with either, Config holds what
	// could be understood.
	ConfigFile               string
	FileError, SettingsError error // nil: nothing is wrong
	// Built is when the program was built, which no clock should be before; zero if that is not
	// known.
	Built time.Time
	Log   *slog.Logger // takes what libraries say meanwhile
}

// checkTime bounds one check. The longest asks 64 entry points, 16 at a time, 5 s each, having
// looked their names up for 5 s.
const checkTime = 30 * time.Second

// check is one examination. It returns when ctx ends, and says then what it knows.
type check struct {
	name string
	look func(*examination, context.Context) Finding
}

// checks in their order: what the later ones stand on comes first.
var checks = []check{
	{"data directory", (*examination).dataDir},
	{"data", (*examination).data},
	{"disk", (*examination).disk},
	{"descriptors", (*examination).descriptors},
	{"clock", (*examination).clock},
	{"ports", (*examination).ports},
	{"DNS seed", (*examination).seeds},
	{"entry peers", (*examination).bootstrap},
	{"DNS resolver", (*examination).resolver},
	{"contact", (*examination).contact},
	{"files", (*examination).files},
	{"configuration", (*examination).configuration},
	{"peer", (*examination).peer},
}

// examination is one run over all checks, which share what was asked.
type examination struct {
	Setup
	began time.Time
	// status is what the running peer says of itself, nil if none runs; statusErr why one that runs
	// does not say.
	status    *control.Status
	statusErr error
	runs      bool
	// kept is what a peer that does not run left behind.
	kept    node.Kept
	keptErr error
	// entries is asked once, by the first check that wants it.
	entries []node.Entry
	scouted bool
	// neighbours are asked once, of the running peer.
	neighbours []control.PeerLine
}

// Examine runs all checks, one after another, and tells each finding as it comes. It returns how
// many failed, or ctx's error if that ended first.
func Examine(ctx context.Context, s Setup, tell func(Finding) error) (failed int, err error) {
	e := &examination{Setup: s, began: time.Now()}
	e.askPeer(ctx)
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

// askTime is how long a running peer has to say how it is.
const askTime = 10 * time.Second

// askPeer asks the peer of the data directory, or reads what it left.
func (e *examination) askPeer(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if e.runs = control.Answers(ctx, e.Config.APIAddr()); !e.runs {
		e.kept, e.keptErr = node.ReadKept(e.Config.DataDir)
		return
	}
	c := e.Config.Client()
	defer c.Close()
	if e.status, e.statusErr = c.Status(ctx, false); e.statusErr == nil {
		e.neighbours, e.statusErr = c.Peers(ctx)
	}
}

// scout asks the entry points, once.
func (e *examination) scout(ctx context.Context) []node.Entry {
	if !e.scouted {
		e.scouted = true
		var err error
		if e.entries, err = node.Scout(ctx, &e.Config, e.kept.Remembered, e.Log); err != nil {
			e.Log.Debug("entry peers not asked", "err", err)
		}
	}
	return e.entries
}

func fine(format string, args ...any) Finding {
	return Finding{Verdict: OK, Found: fmt.Sprintf(format, args...)}
}

// count writes how many of a thing there are.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func found(v Verdict, what, cure string) Finding { return Finding{Verdict: v, Found: what, Cure: cure} }
