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
		return found(Fail, "none is set, and the public profile demands one: webmasters must be able to reach you",
			"--contact https://you.example/crawler, or mailto:you@example.org")
	case err != nil:
		return found(Fail, err.Error(), "give it as https://you.example/crawler or mailto:you@example.org")
	case c.Contact == "" && !c.AllowPrivate && len(c.AllowPrefixes) == 0:
		return found(Warn, "none is set: webmasters cannot reach you", "--contact https://you.example/crawler, or mailto:you@example.org")
	case c.Contact == "":
		return fine("none is set, and none needed for private addresses")
	default:
		return fine("sites are told %s", c.UserAgent())
	}
}

func (e *examination) files(context.Context) Finding {
	var named []string
	for _, f := range []string{e.Config.GeoIP, e.Config.Hierarchy} {
		if f != "" {
			named = append(named, f)
		}
	}
	if err := e.Config.CheckFiles(); err != nil {
		return found(Fail, oneLine(err), "check the path and the format: a MaxMind DB for --geoip; CSV with columns prefix and org, or delegated-extended, for --hierarchy")
	}
	if len(named) == 0 {
		return fine("none is set")
	}
	return fine("%s can be read", strings.Join(named, ", "))
}

func (e *examination) configuration(context.Context) Finding {
	contact := e.Config.ContactError()
	switch {
	case e.FileError != nil:
		return found(Fail, oneLine(e.FileError), "mend that line of the file (or the environment); what is said above was examined without it")
	case e.SettingsError != nil && (contact == nil || e.SettingsError.Error() != contact.Error()):
		return found(Fail, oneLine(e.SettingsError), "change that setting: `apoidea run --help` says what each takes")
	case e.ConfigFile == "":
		return fine("no file, the flags and the environment make sense; profile %s, network %s", e.Config.Profile, e.Config.Network)
	default:
		return fine("%s: every key is known; profile %s, network %s", e.ConfigFile, e.Config.Profile, e.Config.Network)
	}
}

// stalledCure is what to do about a peer in which nothing moves.
func stalledCure(stacks string) string {
	cure := "start it again, the crawl goes on where it was"
	if stacks == "" {
		return cure + "; see its log for what came before"
	}
	return cure + "; it is a fault of apoidea, which " + stacks + " helps to find"
}

// peer says how the running peer is.
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
		return fine("none runs here")
	case s == nil || e.statusErr != nil:
		return found(Fail, fmt.Sprintf("it runs and does not say how it is: %v", e.statusErr), "look at its log; a peer that is stopped (SIGSTOP) or out of memory answers nobody")
	case s.Stalled != nil:
		return found(Fail, fmt.Sprintf("nothing has moved in it since %s, though there is work: %s", s.Stalled.Since.Local().Format(time.TimeOnly), s.Stalled.Work),
			stalledCure(s.Stalled.Stacks))
	case s.State == "joining":
		return found(Warn, fmt.Sprintf("joining since %.0f s: it has not found its place in the ring", s.UptimeS), "see the checks of DNS seed and entry peers; --found serves alone")
	case s.Network != e.Config.Network:
		return found(Warn, fmt.Sprintf("it is in network %s, the settings say %s", s.Network, e.Config.Network), "start it again with these settings, or give doctor those it was started with")
	case s.Role != "worker" && !s.Ring.Stable:
		return found(Warn, fmt.Sprintf("%s as %s in a ring of %d, its neighbours changing", s.State, s.Role, s.Ring.Members), "wait a minute while peers come and go; then see `apoidea ring`")
	case s.Holding != "":
		return fine("%s (%s) as %s in a ring of %d", s.State, s.Holding, s.Role, s.Ring.Members)
	default:
		return fine("%s as %s in a ring of %d", s.State, s.Role, s.Ring.Members)
	}
}
