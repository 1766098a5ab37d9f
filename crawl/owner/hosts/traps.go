package hosts

import (
	"github.com/apoidea/apoidea/crawl/farm"
	"github.com/apoidea/apoidea/crawl/novelty"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// Traps is what is known of the pages of hosts, to tell those that bring nothing new.
type Traps struct{ *Step }

const (
	// FewPages are not worth a record of their own when a lease ends.
	FewPages = 32
	// lastFor is for how many usual times between requests a URL waits that goes last, and LastMost
	// in ms the longest.
	lastFor  = 20
	LastMost = 30_000
)

// Of returns what is known of the pages of a job on a host, as the store has it if it is not in
// memory.
func (t *Traps) Of(h *Host, hj *Job) *novelty.State {
	if hj.Novelty != nil {
		return hj.Novelty
	}
	hj.Novelty = new(novelty.State)
	if hj.Tally.Requests() < FewPages {
		return hj.Novelty
	}
	raw, ok := t.Buf.Get(ondisk.NoveltyKey(h.Pos, hj.State.ID))
	if !ok {
		return hj.Novelty
	}
	s, err := ondisk.DecodeNovelty(raw)
	if err != nil {
		t.Buf.Fail(err)
		return hj.Novelty
	}
	hj.Novelty = s
	return s
}

// save writes what is known of the pages of a job on a host.
func (t *Traps) save(h *Host, hj *Job) {
	if hj.News && hj.Novelty != nil {
		t.Buf.Set(ondisk.NoveltyKey(h.Pos, hj.State.ID), hj.Novelty.Append([]byte{ondisk.Format}))
		if h.Lease == nil {
			hj.Novelty = nil // some kilobytes, and nobody asks until the next lease
		}
	}
	hj.News = false
}

// Text says why a host, or a part of it, is taken for a trap; empty if none is.
func (t *Traps) Text(h *Host, hj *Job) string {
	if t.Cfg.Novelty > 0 {
		if why := t.Of(h, hj).Why(t.Cfg.Novelty); why != "" {
			return ondisk.Clip(why)
		}
	}
	if hj.Tally.Counters().Trap {
		return "an owner of the host found that its pages bring nothing new"
	}
	return ""
}

// Window is how many URLs of a host are out at once.
func (t *Traps) Window(h *Host) int {
	window := t.Cfg.Window
	for _, hj := range h.Jobs {
		if t.Cfg.Novelty > 0 {
			window = min(window, t.Of(h, hj).Ahead(t.Cfg.Novelty, t.Cfg.Window))
		}
	}
	return window
}

// Farm returns what is known of hosts that bring hosts in a job.
func (t *Traps) Farm(js *JobState) *farm.Farm {
	if js.farm != nil {
		return js.farm
	}
	js.farm = new(farm.Farm)
	if raw, ok := t.Buf.Get(ondisk.JobKey(ondisk.SpaceFarm, js.ID)); ok && len(raw) > 0 && raw[0] == ondisk.Format {
		if f, err := farm.Decode(raw[1:]); err == nil {
			js.farm = f
		}
	}
	return js.farm
}

// Outgrows says whether a host's own pages lead to ever more URLs, and the job has made as many
// requests as those get of which nobody else speaks.
func (t *Traps) Outgrows(h *Host, hj *Job) bool {
	if t.Cfg.MaxRequests == 0 || hj.Tally.Requests() < firstRequests || hj.Tally.Counters().Exhausted {
		return false
	}
	s := t.Of(h, hj)
	return s.Grown() > growsTo && hj.Tally.Requests() >= firstRequests+namedRequests*s.Named(hj.Tally.Accepted())
}
