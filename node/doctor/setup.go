package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"
)

func (e *examination) contact(context.Context) Finding {
	c := &e.Config
	switch err := c.ContactError(); {
	case err != nil && c.Contact == "":
		return found(Fail, "not set, but required by the public profile: webmasters must be able to reach you",
			"set --contact https://you.example/crawler, or mailto:you@example.org")
	case err != nil:
		return found(Fail, err.Error(), "use https://you.example/crawler or mailto:you@example.org")
	case c.Contact == "" && !c.AllowPrivate && len(c.AllowPrefixes) == 0:
		return found(Warn, "not set: webmasters cannot reach you", "set --contact https://you.example/crawler, or mailto:you@example.org")
	case c.Contact == "":
		return fine("not set; not needed for private addresses")
	default:
		return fine("the User-Agent is %s", c.UserAgent())
	}
}

func (e *examination) configuration(context.Context) Finding {
	contact := e.Config.ContactError()
	switch {
	case e.FileError != nil:
		return found(Fail, oneLine(e.FileError), "fix that line of the file (or the environment variable); the other checks ran without it")
	case e.SettingsError != nil && (contact == nil || e.SettingsError.Error() != contact.Error()):
		return found(Fail, oneLine(e.SettingsError), "change that setting; `apoidea run --help` lists the valid values")
	case e.ConfigFile == "":
		return fine("no file; flags and environment are valid; profile %s, network %s", e.Config.Profile, e.Config.Network)
	default:
		return fine("%s is valid; profile %s, network %s", e.ConfigFile, e.Config.Profile, e.Config.Network)
	}
}

// stalledCure returns the fix for a stalled peer.
func stalledCure(stacks string) string {
	cure := "restart the peer; the crawl continues where it stopped"
	if stacks == "" {
		return cure + "; its log shows the cause"
	}
	return cure + "; this is a bug in apoidea: report it with " + stacks
}

// peer reports the state of the running peer.
func (e *examination) peer(context.Context) Finding {
	f := e.running()
	if s := e.status; s != nil && s.Name != "" {
		f.Found = string(s.Name) + ": " + f.Found
	}
	return f
}

func (e *examination) running() Finding {
	s := e.status
	switch {
	case !e.runs:
		return fine("not running")
	case s == nil || e.statusErr != nil:
		return found(Fail, fmt.Sprintf("the peer runs but does not report its status: %v", e.statusErr), "see its log; a peer that is stopped (SIGSTOP) or out of memory does not respond")
	case s.Stalled != nil:
		return found(Fail, fmt.Sprintf("no progress since %s, with work pending: %s", s.Stalled.Since.Local().Format(time.TimeOnly), s.Stalled.Work),
			stalledCure(s.Stalled.Stacks))
	case s.State == "joining":
		return found(Warn, fmt.Sprintf("joining for %.0f s", s.UptimeS), "see the checks of the DNS seed and the entry peers, or start a ring alone with --found")
	case s.Network != e.Config.Network:
		return found(Warn, fmt.Sprintf("the running peer is in network %s, the settings name %s", s.Network, e.Config.Network), "restart it with these settings, or run doctor with its settings")
	case s.Role != "worker" && !s.Ring.Stable:
		return found(Warn, fmt.Sprintf("running: %s, %s of a ring of %d that is converging", s.State, strings.Replace(s.Role, "ring", "member", 1), s.Ring.Members), "wait a minute, then see `apoidea ring`")
	case s.Holding != "":
		return fine("running: %s (%s), %s of a ring of %d", s.State, s.Holding, strings.Replace(s.Role, "ring", "member", 1), s.Ring.Members)
	default:
		return fine("running: %s, %s of a ring of %d", s.State, strings.Replace(s.Role, "ring", "member", 1), s.Ring.Members)
	}
}
