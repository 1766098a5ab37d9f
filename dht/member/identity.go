package member

import (
	"crypto/rand"
	"fmt"
	"net/netip"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// GenerateIdentity draws n Ed25519 keys and returns the one that choose picks from the peer IDs (an
// index; the first if choose is nil or the index is out of range). A peer's ID is its position on
// the ring, so a joining peer can balance the arcs (design 3).
func GenerateIdentity(n int, choose func(candidates []peer.ID) int) (crypto.PrivKey, error) {
	keys := make([]crypto.PrivKey, max(n, 1))
	ids := make([]peer.ID, len(keys))
	for i := range keys {
		key, public, err := crypto.GenerateEd25519Key(rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("generate key: %w", err)
		}
		if ids[i], err = peer.IDFromPublicKey(public); err != nil {
			return nil, fmt.Errorf("peer ID of key: %w", err)
		}
		keys[i] = key
	}
	if choose != nil {
		if i := choose(ids); i >= 0 && i < len(keys) {
			return keys[i], nil
		}
	}
	return keys[0], nil
}

// MarshalIdentity returns the stored form of a key. It is secret.
func MarshalIdentity(key crypto.PrivKey) ([]byte, error) {
	b, err := crypto.MarshalPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("store identity: %w", err)
	}
	return b, nil
}

// maxIdentity is the maximum size of a stored key in bytes; an Ed25519 one takes 68.
const maxIdentity = 4096

// UnmarshalIdentity decodes the result of MarshalIdentity.
func UnmarshalIdentity(b []byte) (crypto.PrivKey, error) {
	if len(b) > maxIdentity {
		return nil, fmt.Errorf("stored identity: %d bytes exceed %d", len(b), maxIdentity)
	}
	key, err := crypto.UnmarshalPrivateKey(b)
	if err != nil {
		return nil, fmt.Errorf("stored identity: %w", err)
	}
	return key, nil
}

// Signed reports whether a peer's key has signed a text.
func Signed(by peer.ID, text, signature []byte) bool {
	key, err := by.ExtractPublicKey()
	if err != nil {
		return false
	}
	ok, err := key.Verify(text, signature)
	return ok && err == nil
}

// Short returns the end of a peer's ID, short enough for display.
func Short(id peer.ID) string {
	s := id.String()
	return s[max(0, len(s)-8):]
}

// AddrInfo returns the peer's ID and valid addresses.
func (p Peer) AddrInfo() peer.AddrInfo {
	info := peer.AddrInfo{ID: p.ID}
	for _, raw := range p.Addrs {
		if a, err := ma.NewMultiaddrBytes(raw); err == nil {
			info.Addrs = append(info.Addrs, a)
		}
	}
	return info
}

// FirstIP returns the IP address of the first multiaddr that has one, preferring public ones.
func FirstIP(addrs []string) (first netip.Addr) {
	for _, s := range addrs {
		m, err := ma.NewMultiaddr(s)
		if err != nil {
			continue
		}
		ip, err := manet.ToIP(m)
		if err != nil {
			continue
		}
		addr, ok := netip.AddrFromSlice(ip)
		if ok && manet.IsPublicAddr(m) {
			return addr.Unmap()
		}
		if ok && !first.IsValid() {
			first = addr.Unmap()
		}
	}
	return first
}

// NameOf returns the ID of the peer with a stored identity.
func NameOf(identity []byte) (string, error) {
	key, err := UnmarshalIdentity(identity)
	if err != nil {
		return "", err
	}
	id, err := peer.IDFromPrivateKey(key)
	return id.String(), err
}
