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

// maxMemoryBytes bounds what ParseMemory reads.
const maxMemoryBytes = wire.MaxMessageBytes

// Memory is what a peer keeps of the ring between two runs.
type Memory struct {
	// Incarnation of the run that kept it.
	Incarnation uint64
	// Alone says that the peer served the whole circle, so it may again without asking anybody.
	Alone bool
	// Role at last.
	Role Role
	// Predecessor began the arc that was served last; HasPredecessor is false when none ever was.
	Predecessor    ring.Key
	HasPredecessor bool // an arc was ever served
	// Peers are the peers to look for first: the leaf set, nearest first, then some that were in it
	// before.
	Peers []Peer
}

// ParseMemory reads what Memory.Bytes wrote.
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

// Bytes is the stored form.
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
