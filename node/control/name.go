package control

import "regexp"

// Name is the name that an operator gives a peer. It is shown with the peer's ID and is not unique.
// An invalid name is dropped when decoded.
type Name string

// MaxName is the maximum length of a name in bytes.
const MaxName = 32

var validName = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)

// Valid reports whether a name consists of at most MaxName letters, digits, dashes, underscores and
// dots.
func (n Name) Valid() bool { return len(n) <= MaxName && validName.MatchString(string(n)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Name) UnmarshalText(text []byte) error {
	if *n = Name(text); !n.Valid() {
		*n = ""
	}
	return nil
}
