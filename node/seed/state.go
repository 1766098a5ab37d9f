package seed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/apoidea/apoidea/node/datadir"
)

// StateFile is where a seed keeps its state, in its directory.
const StateFile = "seed.json"

const (
	// stateVersion of the file; fields are only ever added within one.
	stateVersion = 1
	// maxState bounds the file, in bytes: a peer takes some 800.
	maxState = 256 << 20
)

// State is what a seed keeps between two runs, and what others read of it.
type State struct {
	Version int       `json:"version"` // of this format
	Zone    string    `json:"zone"`    // as configured
	Network string    `json:"network"` // of the ring
	Public  bool      `json:"public"`  // public addresses only
	Written time.Time `json:"written"` // when this was so
	Peers   []Peer    `json:"peers"`   // the best first
}

// ReadState reads what a seed wrote, whether it runs or not. The error is fs.ErrNotExist where
// there was none.
func ReadState(dir string) (*State, error) {
	path := filepath.Join(dir, StateFile)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err != nil {
		return nil, err
	}
	s := new(State)
	switch err := json.Unmarshal(raw, s); {
	case len(raw) > maxState:
		return nil, fmt.Errorf("%s: more than %d bytes", path, maxState)
	case err != nil:
		return nil, fmt.Errorf("%s: %w; without it the seed begins anew", path, err)
	case s.Version != stateVersion:
		return nil, fmt.Errorf("%s: version %d, this program reads %d", path, s.Version, stateVersion)
	}
	return s, nil
}

// write replaces the file in a directory.
func (s *State) write(dir string) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return datadir.Replace(filepath.Join(dir, StateFile), append(raw, '\n'))
}

// restore fills a book with what an earlier run knew, if there was one, of the same ring.
func restore(b *Book, c *Config) error {
	s, err := ReadState(c.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case s.Network != c.Network:
		return fmt.Errorf("%s knows peers of network %q: name another --data-dir for network %q", filepath.Join(c.Dir, StateFile), s.Network, c.Network)
	}
	b.Restore(time.Now(), s.Peers)
	return nil
}

// book is the state as a book of that time.
func (s *State) book() *Book {
	b := NewBook(Rules{Public: s.Public, Every: mostEvery, Most: mostPeers})
	b.Restore(s.Written, s.Peers)
	return b
}

// Draw draws peers as an answer of the running seed would.
func (s *State) Draw(now time.Time, below func(int) int) []string {
	return s.book().Pool(now).Draw(MostGiven, below)
}

// Line is what is shown of a peer. The JSON names are a contract.
type Line struct {
	Peer        string             `json:"peer"`              // its name
	Given       string             `json:"given"`             // in, spare or out
	Why         string             `json:"why"`               // a sentence for people
	Address     string             `json:"address,omitempty"` // at which it answered last
	Told        []string           `json:"told,omitempty"`    // addresses that others told of it
	Network     string             `json:"network,omitempty"` // of which an answer has one peer
	Sharing     int                `json:"sharing,omitempty"` // how many that are given are in that network, itself included
	Heard       time.Time          `json:"heard"`             // when it was heard of first
	Visited     time.Time          `json:"visited,omitzero"`  // when it was visited last
	Answered    time.Time          `json:"answered,omitzero"` // when it answered last
	Visits      int                `json:"visits"`            // since it was heard of
	Answers     int                `json:"answers"`           // of those
	Reliability map[string]float64 `json:"reliability"`       // by window, 0 to 1: 2h, 8h, day, week
}

// Lines tells of every peer whether it is given, and why.
func (s *State) Lines(now time.Time) []Line {
	lines := make([]Line, 0, len(s.Peers))
	sharing := make(map[string]int)
	for i := range s.Peers {
		p := &s.Peers[i]
		rank, why := p.Rank(now)
		l := Line{
			Peer: p.ID.String(), Given: rank.String(), Why: why, Address: p.Address, Told: p.Told, Heard: p.Heard, Visited: p.Visited,
			Answered: p.Answered, Visits: p.Visits, Answers: p.Answers, Reliability: make(map[string]float64, len(measures)),
		}
		for k, m := range measures {
			l.Reliability[m.name] = p.Windows[k].Reliability
		}
		if p.Address != "" && s.Public {
			l.Network = networkOf(p.Address, true)
		}
		if rank != Out && l.Network != "" {
			sharing[l.Network]++
		}
		lines = append(lines, l)
	}
	for i := range lines {
		if l := &lines[i]; l.Given != Out.String() && sharing[l.Network] > 1 {
			l.Sharing = sharing[l.Network]
			l.Why += fmt.Sprintf("; one of %d in %s, of which an answer has one", l.Sharing, l.Network)
		}
	}
	return lines
}
