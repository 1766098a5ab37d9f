package control

import "regexp"

// Name is what a person calls a peer. It stands beside the peer's ID and never for it: two peers
// may bear one name. One that breaks the rule is dropped where it is unpacked, whoever says it.
type Name string

// MaxName bounds a name in bytes.
const MaxName = 32

var validName = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)

// Valid says whether a name keeps the rule: letters, digits, dash, underscore and dot, MaxName of
// them at most.
func (n Name) Valid() bool { return len(n) <= MaxName && validName.MatchString(string(n)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Name) UnmarshalText(text []byte) error {
	if *n = Name(text); !n.Valid() {
		*n = ""
	}
	return nil
}
