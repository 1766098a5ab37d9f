package dht

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// memoryVersion is the version of the stored form of Memory.
const memoryVersion = 1

// maxMemoryBytes is the maximum input of ParseMemory.
const maxMemoryBytes = wire.MaxMessageBytes

// Memory is the ring state that a peer keeps between runs.
type Memory struct {
	// Incarnation is that of the run that stored it.
	Incarnation uint64
	// Alone reports that the peer served the whole circle, so it may again without asking others.
	Alone bool
	// Role is the last role.
	Role Role
	// Predecessor is the start of the arc served last; HasPredecessor is false if there was none.
	Predecessor    ring.Key
	HasPredecessor bool // an arc was ever served
	// Peers are the peers to contact first: the leaf set, nearest first, then former leaf peers.
	Peers []Peer
}

// ParseMemory decodes the result of Memory.Bytes.
func ParseMemory(data []byte) (*Memory, error) {
	if len(data) > maxMemoryBytes {
		return nil, fmt.Errorf("ring memory: %d bytes: %w", len(data), wire.ErrTooLarge)
	}
	var m wire.Memory
	if err := proto.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("ring memory: %w", err)
	}
	if m.GetVersion() != memoryVersion {
		return nil, fmt.Errorf("ring memory: version %d: %w", m.GetVersion(), wire.ErrVersion)
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("ring memory: %w", err)
	}
	memory := &Memory{Incarnation: m.GetIncarnation(), Alone: m.GetAlone(), Role: member.RoleOf(m.GetRole()), Peers: member.List(m.GetPeers())}
	if start := m.GetPredecessor(); len(start) > 0 {
		memory.Predecessor, memory.HasPredecessor = ring.Key(start), true
	}
	return memory, nil
}

// Bytes returns the stored form.
func (m *Memory) Bytes() ([]byte, error) {
	stored := &wire.Memory{Version: memoryVersion, Incarnation: m.Incarnation, Alone: m.Alone, Role: m.Role.Wire(), Peers: member.Wire(m.Peers)}
	if m.HasPredecessor {
		stored.Predecessor = m.Predecessor[:]
	}
	data, err := proto.Marshal(stored)
	if err == nil && len(data) > maxMemoryBytes {
		err = errors.New("too many peers")
	}
	if err != nil {
		return nil, fmt.Errorf("ring memory: %w", err)
	}
	return data, nil
}
