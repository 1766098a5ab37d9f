package job

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
)

// ErrSignature says that the poster's key did not sign this.
var ErrSignature = errors.New("the signature is not that of the poster's key")

// specContext begins what is signed of a spec: the same key signs other things, and no signature
// passes for that of something else.
const specContext = "apoidea job spec 1\x00"

// keyHead begins the ID of a peer that has an Ed25519 key, which follows: a multihash (identity, of
// 36 bytes) of the key as libp2p writes it (type 1, data of 32 bytes).
const keyHead = "\x00\x24\x08\x01\x12\x20"

// Key is a job key: it signs the jobs of whoever has it, and says whose they are. The zero Key
// signs nothing.
type Key struct{ private ed25519.PrivateKey }

// NewKey is the job key of an Ed25519 key.
func NewKey(private ed25519.PrivateKey) Key { return Key{private} }

// ID is the ID that a peer with that key would have, and the poster of its jobs; nil of the zero
// Key.
func (k Key) ID() []byte {
	if k.private == nil {
		return nil
	}
	public := k.private.Public().(ed25519.PublicKey) // as its documentation promises
	return append([]byte(keyHead), public...)
}

// Sign makes a job one of that key.
func (k Key) Sign(s *Spec) error {
	if k.private == nil {
		return nil
	}
	s.Poster = k.ID()
	text, err := s.signed()
	if err != nil {
		return err
	}
	s.Signature = ed25519.Sign(k.private, text)
	return nil
}

// publicKey reads the key that is in an ID; false of one that has none in it.
func publicKey(id []byte) (ed25519.PublicKey, bool) {
	public, ok := bytes.CutPrefix(id, []byte(keyHead))
	return public, ok && len(public) == ed25519.PublicKeySize
}

// Signed says whether the poster's key signed the job. Without a signature anybody may have made
// it.
func (s *Spec) Signed() bool { return len(s.Signature) > 0 }

// signed are the bytes that are signed: the spec as it travels, but for the signature, its fields
// in the order of their numbers.
func (s *Spec) signed() ([]byte, error) {
	m := s.Wire()
	m.Signature = nil
	text, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte(specContext), m)
	if err != nil {
		return nil, fmt.Errorf("encode job: %w", err)
	}
	return text, nil
}

// verify refuses a signature that is wrong. Fields that are not known here are not in what is
// signed, so a job that uses one is refused, which is better than to crawl it without.
func (s *Spec) verify() error {
	if !s.Signed() {
		return nil
	}
	public, ok := publicKey(s.Poster)
	if !ok {
		return fmt.Errorf("job spec %s: signed, and its poster is no Ed25519 key: %w", s.ID, ErrSignature)
	}
	text, err := s.signed()
	if err != nil {
		return err
	}
	if !ed25519.Verify(public, text, s.Signature) {
		return fmt.Errorf("job spec %s: %w (or it was made by another version, which knows more)", s.ID, ErrSignature)
	}
	return nil
}
