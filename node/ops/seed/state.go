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

// StateFile is the name of the state file in a seed's directory.
const StateFile = "seed.json"

const (
	// stateVersion is the format version; within one version fields are only added.
	stateVersion = 1
	// maxState limits the file, in bytes: a peer needs about 800.
	maxState = 256 << 20
)

// State is the stored state of a seed, also read by other commands.
type State struct {
	Version int       `json:"version"` // of this format
	Zone    string    `json:"zone"`    // as configured
	Network string    `json:"network"` // of the ring
	Public  bool      `json:"public"`  // public addresses only
	Written time.Time `json:"written"` // time of the write
	Peers   []Peer    `json:"peers"`   // best first
}

// ReadState reads the state of a seed, running or not. The error is fs.ErrNotExist if there is
// none.
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
		return nil, fmt.Errorf("%s: %w; delete it to start without state", path, err)
	case s.Version != stateVersion:
		return nil, fmt.Errorf("%s: version %d, must be %d", path, s.Version, stateVersion)
	}
	return s, nil
}

// write replaces the file in a directory atomically.
func (s *State) write(dir string) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return datadir.Replace(filepath.Join(dir, StateFile), append(raw, '\n'))
}

// restore loads the state of an earlier run for the same ring, if any, into a set.
func restore(b *PeerSet, c *Config) error {
	s, err := ReadState(c.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case s.Network != c.Network:
		return fmt.Errorf("%s is of network %q: use another --data-dir for network %q", filepath.Join(c.Dir, StateFile), s.Network, c.Network)
	}
	b.Restore(time.Now(), s.Peers)
	return nil
}

// peerSet returns the state as a set.
func (s *State) peerSet() *PeerSet {
	b := NewPeerSet(Rules{Public: s.Public, Every: mostEvery, Most: mostPeers})
	b.Restore(s.Written, s.Peers)
	return b
}

// Draw draws peers as for a response of the running seed.
func (s *State) Draw(now time.Time, below func(int) int) []string {
	return s.peerSet().Pool(now).Draw(MostGiven, below)
}

// Line is one peer in the output of commands. The JSON names are stable.
type Line struct {
	Peer        string             `json:"peer"`              // its name
	Given       string             `json:"given"`             // in, spare or out
	Why         string             `json:"why"`               // text for people
	Address     string             `json:"address,omitempty"` // address of the last response
	Told        []string           `json:"told,omitempty"`    // addresses announced by others
	Network     string             `json:"network,omitempty"` // a response has at most one peer of it
	Sharing     int                `json:"sharing,omitempty"` // included peers in that network, with this one
	Heard       time.Time          `json:"heard"`             // when it was heard of first
	Visited     time.Time          `json:"visited,omitzero"`  // when it was visited last
	Answered    time.Time          `json:"answered,omitzero"` // when it answered last
	Visits      int                `json:"visits"`            // since its discovery
	Answers     int                `json:"answers"`           // successful visits
	Reliability map[string]float64 `json:"reliability"`       // by window, 0 to 1: 2h, 8h, day, week
}

// Lines returns all peers with their rank and its reason.
func (s *State) Lines(now time.Time) []Line {
	lines := make([]Line, 0, len(s.Peers))
	sharing := make(map[string]int)
	for i := range s.Peers {
		p := &s.Peers[i]
		rank, why := p.Rank(now)
		l := Line{
			Peer: p.ID.String(), Given: rank.String(), Why: why, Address: p.Address, Told: p.Announced, Heard: p.FirstSeen, Visited: p.Visited,
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
			l.Why += fmt.Sprintf("; one of %d in %s, a response has at most one of them", l.Sharing, l.Network)
		}
	}
	return lines
}
