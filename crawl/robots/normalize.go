package robots

const hexDigits = "0123456789ABCDEF"

// Classes of an octet in a path.
const (
	keep   = iota // unchanged
	encode        // written as %XX
	check         // handled by special: %, * and $
)

// octets classifies each octet: those of RFC 3986's unreserved and reserved sets are unchanged.
var octets = func() (table [256]uint8) {
	for c := range table {
		table[c] = encode
	}
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!&'()+,;=" {
		table[c] = keep
	}
	for _, c := range "%*$" {
		table[c] = check
	}
	return table
}()

// normalize returns the form in which paths and patterns are compared: %XX in upper case,
// unreserved octets decoded, octets outside the URL alphabet encoded. In a path, * and $ are
// encoded, because they are ordinary there; in a pattern, * stays a wildcard and a final $ the
// anchor. A % that begins no escape is encoded too, so that the result is a fixed point.
func normalize(s string, pattern bool) string {
	for i := range len(s) {
		if octets[s[i]] != keep {
			return normalizeFrom(s, i, pattern)
		}
	}
	return s
}

func normalizeFrom(s string, start int, pattern bool) string {
	out := make([]byte, start, len(s)+16)
	copy(out, s[:start])
	for i := start; i < len(s); i++ {
		c := s[i]
		switch octets[c] {
		case keep:
			out = append(out, c)
		case encode:
			out = append(out, '%', hexDigits[c>>4], hexDigits[c&15])
		default:
			var skip int
			out, skip = special(out, s, i, pattern)
			i += skip
		}
	}
	return string(out)
}

// special appends the octet at i, a %, * or $, and returns how many octets after it are consumed.
func special(out []byte, s string, i int, pattern bool) ([]byte, int) {
	c := s[i]
	if c == '%' {
		if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
			return append(out, "%25"...), 0
		}
		octet := unhex(s[i+1])<<4 | unhex(s[i+2])
		if isUnreserved(octet) {
			return append(out, octet), 2
		}
		return append(out, '%', hexDigits[octet>>4], hexDigits[octet&15]), 2
	}
	if pattern && (c == '*' || i == len(s)-1) {
		return append(out, c), 0
	}
	return append(out, '%', hexDigits[c>>4], hexDigits[c&15]), 0
}

func isUnreserved(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
