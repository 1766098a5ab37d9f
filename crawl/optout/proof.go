package optout

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

const (
	// WellKnown is the path at which a site publishes the proof, and txtPrefix the prefix of its name
	// in the DNS for a TXT record.
	WellKnown = "/.well-known/apoidea.txt"
	txtPrefix = "_apoidea."
	// MaxProof bounds the bytes read of that file, MaxTXT the TXT records checked.
	MaxProof = 16 << 10
	MaxTXT   = 64 // records

	tokenBytes = 16
)

// Action is the requested action.
type Action string

// The actions; they are part of the wire.
const (
	Out  Action = "opt-out"
	Back Action = "withdraw"
)

// ErrSubject is returned for an invalid subject or action.
var ErrSubject = errors.New("want a host or a domain, and opt-out or withdraw")

// Subject is a host or domain that opts out in the ring.
type Subject struct {
	Kind Kind   // KindHost or KindDomain
	Name string // canonical; of a host with the port unless it is the default
}

// String returns the subject as ParseSubject reads it.
func (s Subject) String() string { return string(s.Kind) + " " + s.Name }

// ParseSubject parses untrusted text, such as "host example.org"; a name alone is a host.
func ParseSubject(text string) (Subject, error) {
	text = strings.TrimSpace(text)
	kind, name, ok := strings.Cut(text, " ")
	if !ok && text != string(KindHost) && text != string(KindDomain) {
		kind, name = string(KindHost), text
	}
	s := Subject{Kind: Kind(kind)}
	if s.Kind != KindHost && s.Kind != KindDomain || len(name) > maxLine {
		return Subject{}, fmt.Errorf("%.80q: %w", text, ErrSubject)
	}
	var err error
	if s.Name, err = hostName(strings.TrimSpace(name)); err != nil {
		return Subject{}, fmt.Errorf("%.80q: %w: %w", text, ErrSubject, err)
	}
	if s.Kind == KindDomain && (strings.ContainsAny(name, ":[") || isAddr(s.Name)) {
		return Subject{}, fmt.Errorf("%.80q: %w: a domain is a name without a port", text, ErrSubject)
	}
	return s, nil
}

func isAddr(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}

// ParseAction parses an action.
func ParseAction(text string) (Action, error) {
	if a := Action(text); a == Out || a == Back {
		return a, nil
	}
	return "", fmt.Errorf("%.40q: %w", text, ErrSubject)
}

// Token returns the proof that a site publishes for an action: a line of the file, or one TXT
// record.
func Token(s Subject, a Action) string {
	sum := sha256.Sum256([]byte("/apoidea/optout/" + string(a) + "/" + s.String()))
	return "apoidea-" + string(a) + "=" + hex.EncodeToString(sum[:tokenBytes])
}

// Shows reports whether a published text, the file or TXT records one per line, proves an action.
// If both actions are published, only the opt-out is valid.
func Shows(text string, s Subject, a Action) bool {
	want, other := Token(s, a), Token(s, Out)
	found := false
	// Editors add byte order marks and zeros (UTF-16), and some systems end lines with CR alone.
	text = strings.ReplaceAll(text, "\x00", "")
	for _, mark := range []string{"\ufeff", "\xff\xfe", "\xfe\xff"} {
		text = strings.TrimPrefix(text, mark)
	}
	for line := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == '\n' || c == '\r' }) {
		switch strings.TrimSpace(line) {
		case want:
			found = true
		case other:
			return false
		}
	}
	return found
}

// nameOf returns the name of a subject without its port, as used in the DNS.
func nameOf(s Subject) string {
	if i := strings.LastIndexByte(s.Name, ':'); i > strings.LastIndexByte(s.Name, ']') {
		return s.Name[:i]
	}
	return s.Name
}

// TXTName returns the DNS name of a subject's TXT record.
func TXTName(s Subject) string { return txtPrefix + nameOf(s) }
