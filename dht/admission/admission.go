// Package admission decides which peers may be members of a ring: all of them in an open ring, and
// only those with a valid chain of certificates in a ring by invitation.
//
// A certificate admits one peer, its subject. The founder signs the first one of a chain, and the
// subject of each signs the next; so issuers are not stored. A chain has at most three, is valid
// until the earliest expiry, and void if an issuer has revoked a subject below it. Times are
// arguments, and no goroutine is started.
package admission

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/sizelimit"
	"github.com/apoidea/apoidea/dht/wire"
)

const (
	// DefaultValidity is the default validity of a certificate.
	DefaultValidity = 30 * 24 * time.Hour
	// MaxValidity is the maximum validity of a certificate, and that of a revocation.
	MaxValidity = 400 * 24 * time.Hour
	// clockSlack is the allowed difference of clocks.
	clockSlack = time.Minute
)

// Errors that callers may test for.
var (
	ErrCharter     = errors.New("another charter")
	ErrCertificate = errors.New("no valid certificate")
)

// Prefixes of signed bytes: a peer's key signs other data as well.
const (
	certificateContext = "apoidea certificate 1\x00"
	revocationContext  = "apoidea revocation 1\x00"
)

// Charter is the property of a ring that is fixed when it is founded. The zero Charter is that of
// an open ring.
type Charter struct {
	// Founder is the root of all chains of a ring by invitation; empty in an open one.
	Founder peer.ID
}

// Of returns the charter in a message.
func Of(m *wire.Admission) Charter { return Charter{peer.ID(m.GetFounder())} }

// Mode returns open or invite, as in --admission.
func (c Charter) Mode() string {
	if c.Founder == "" {
		return "open"
	}
	return "invite"
}

// String returns the mode, and the founder if it matters.
func (c Charter) String() string {
	if c.Founder == "" {
		return c.Mode()
	}
	return "invite, founder " + c.Founder.String()
}

// verify returns the time until which a chain admits subject.
func (c Charter) verify(network string, chain []*wire.Certificate, subject peer.ID, now time.Time) (until int64, err error) {
	if len(chain) == 0 || len(chain) > wire.MaxChain {
		return 0, fmt.Errorf("%w: chain of %d certificates, expected 1 to %d", ErrCertificate, len(chain), wire.MaxChain)
	}
	issuer := c.Founder
	for i, cert := range chain {
		switch {
		case cert.GetIssued() > now.Add(clockSlack).Unix():
			return 0, fmt.Errorf("%w: issued at %s, in the future; check the clocks", ErrCertificate, rfc3339(cert.GetIssued()))
		case cert.GetExpires() <= now.Unix():
			return 0, fmt.Errorf("%w: expired at %s", ErrCertificate, rfc3339(cert.GetExpires()))
		case cert.GetExpires()-cert.GetIssued() > int64(MaxValidity/time.Second):
			return 0, fmt.Errorf("%w: valid for %d s, expected at most %d", ErrCertificate, cert.GetExpires()-cert.GetIssued(), int64(MaxValidity/time.Second))
		}
		text := signed(certificateContext, network, c.Founder, peer.ID(cert.GetSubject()), cert.GetIssued(), cert.GetExpires())
		if err := checkSignature(issuer, text, cert.GetSignature()); err != nil {
			return 0, fmt.Errorf("%w: certificate %d of the chain: %w", ErrCertificate, i+1, err)
		}
		if issuer = peer.ID(cert.GetSubject()); i == 0 || cert.GetExpires() < until {
			until = cert.GetExpires()
		}
	}
	if issuer != subject {
		return 0, fmt.Errorf("%w: it is for peer %s", ErrCertificate, issuer)
	}
	return until, nil
}

func rfc3339(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }

// signed returns the bytes that a signature covers.
func signed(context, network string, founder, subject peer.ID, from, until int64) []byte {
	text := []byte(context)
	for _, s := range []string{network, string(founder), string(subject)} {
		text = append(binary.AppendUvarint(text, uint64(len(s))), s...)
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(text, uint64(from)), uint64(until))
}

func checkSignature(by peer.ID, text, signature []byte) error {
	if !member.Signed(by, text, signature) {
		return fmt.Errorf("signature does not match the key of peer %s", by)
	}
	return nil
}

// Text returns a chain as one line of text, for Parse.
func Text(m *wire.Admission) (string, error) {
	raw, err := proto.Marshal(m)
	return base64.RawURLEncoding.EncodeToString(raw), err
}

// maxTextBytes is the maximum length of the text of a chain; one takes at most 700.
const maxTextBytes = 2048

// Parse decodes the result of Text. It checks no signature.
func Parse(text string) (*wire.Admission, error) {
	if len(text) > maxTextBytes {
		return nil, fmt.Errorf("certificate of %d characters, expected at most %d", len(text), maxTextBytes)
	}
	m := new(wire.Admission)
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = sizelimit.Unmarshal(raw, m)
	}
	if err == nil {
		err = m.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("certificate %.20q: %w", text, err)
	}
	return m, nil
}

// issue returns a certificate.
func issue(key crypto.PrivKey, network string, founder, subject peer.ID, from, until int64) (*wire.Certificate, error) {
	signature, err := key.Sign(signed(certificateContext, network, founder, subject, from, until))
	return &wire.Certificate{Subject: []byte(subject), Issued: from, Expires: until, Signature: signature}, err
}
