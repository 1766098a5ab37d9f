package link

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"

	whatwg "github.com/nlnwa/whatwg-url/url"
	"golang.org/x/text/encoding"
)

// Limits of a DNS name (RFC 1035, 2.3.4), without the final dot.
const (
	maxHost  = 253
	maxLabel = 63
)

// Host returns the host of a canonical URL: lower-case punycode, with ":port" unless it is the
// scheme's default. It is a substring of url, so it allocates nothing and retains url. It returns
// "" if url is not canonical.
func Host(url string) string {
	begin, end := authority(url)
	return url[begin:end]
}

// Origin returns scheme, host and port of a canonical URL, such as https://a.example:8443; "" if
// url is not canonical.
func Origin(url string) string {
	_, end := authority(url)
	return url[:end]
}

// PathQuery returns a canonical URL's path and query: the request target. It returns "/" if url is
// not canonical.
func PathQuery(url string) string {
	if _, end := authority(url); end > 0 && end < len(url) {
		return url[end:]
	}
	return "/"
}

// authority returns the range of host and port in a canonical URL; 0, 0 otherwise.
func authority(url string) (begin, end int) {
	switch {
	case strings.HasPrefix(url, "https://"):
		begin = len("https://")
	case strings.HasPrefix(url, "http://"):
		begin = len("http://")
	default:
		return 0, 0
	}
	if i := strings.IndexByte(url[begin:], '/'); i >= 0 {
		return begin, begin + i
	}
	return begin, len(url)
}

// appendHost appends a parsed host and port in canonical form.
func appendHost(dst []byte, s string) ([]byte, error) {
	name, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, ']') {
		name, port = s[:i], s[i:]
	}
	if port != "" {
		n, err := strconv.Atoi(port[1:])
		if err != nil {
			return dst, errPort
		}
		if badPort(n) {
			return dst, fmt.Errorf("port %d: %w", n, errPort)
		}
	}
	if !strings.HasPrefix(name, "[") {
		name = strings.TrimSuffix(name, ".")
		if !resolvable(name) {
			return dst, errHost
		}
	}
	return append(append(dst, name...), port...), nil
}

// resolvable reports whether a name is within the limits of the DNS and has no empty label.
func resolvable(name string) bool {
	if len(name) > maxHost {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabel {
			return false
		}
	}
	return true
}

// plainHost reports whether a host of lower-case letters, digits, hyphens and dots is certainly in
// canonical form: an ordinary IPv4 address, or a name without punycode (which the parser checks)
// whose last label begins with a letter.
func plainHost(host []byte) bool {
	if len(host) == 0 || len(host) > maxHost {
		return false
	}
	label := 0 // start of the current label
	for i, c := range host {
		switch {
		case c == '.':
			if i == label || i-label > maxLabel {
				return false
			}
			label = i + 1
		case c == '-' && (i == label || i > 0 && host[i-1] == '-'):
			return false
		}
	}
	last := host[label:]
	if len(last) == 0 || len(last) > maxLabel {
		return false
	}
	return last[0] >= 'a' || plainIPv4(host)
}

// plainIPv4 reports whether host is four decimal numbers of one byte each without leading zeros.
func plainIPv4(host []byte) bool {
	parts, n, digits := 1, 0, 0
	for _, c := range host {
		switch {
		case c == '.' && digits > 0:
			parts, n, digits = parts+1, 0, 0
		case '0' <= c && c <= '9' && !(digits > 0 && n == 0):
			n, digits = n*10+int(c-'0'), digits+1
			if n > 255 {
				return false
			}
		default:
			return false
		}
	}
	return parts == 4 && digits > 0
}

// badPort reports whether a port is not that of a web server: the Fetch standard blocks it ("port
// blocking"), or it is commonly used by an open service that may interpret a request as commands. A
// link to it could make peers contact a mail server or a database in the name of a page. Sites at
// such ports are not crawled, as in browsers; service ports that are common for sites (2082, 3000,
// 5000, 8000 to 9090, 9443 and the like) are not blocked.
func badPort(port int) bool { return blockedPort(port) || servicePort(port) }

// blockedPort reports whether the Fetch standard blocks the port.
func blockedPort(port int) bool {
	switch port {
	case 0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95,
		101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179,
		389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995,
		1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080:
		return true
	default:
		return false
	}
}

// servicePort reports whether a port is commonly that of a service other than a web site.
func servicePort(port int) bool {
	switch port {
	case 873, // rsync
		1433, 1434, 1521, 3306, 5432, 6432, // SQL Server, Oracle, MySQL, PostgreSQL, PgBouncer
		5984, 6379, 6380, 7199, 7687, 8529, 9042, 9160, // CouchDB, Redis, Cassandra, Neo4j, ArangoDB
		9200, 9300, 11211, 27017, 27018, 27019, 28015, // Elasticsearch, memcached, MongoDB, RethinkDB
		1883, 4222, 5671, 5672, 8883, 9092, 61613, 61616, // MQTT, NATS, AMQP, Kafka, ActiveMQ
		2181, 2379, 2380, 8300, 8301, 8302, // ZooKeeper, etcd, Consul
		2375, 2376, 2377, 6443, 10250, 10255, 10256, // Docker, Kubernetes
		445, 1080, 3128, 3389, 5900, 5901, 5985, 5986, 9100: // SMB, proxies, remote desktops, WinRM, printers
		return true
	default:
		return false
	}
}

// Base resolves the hrefs of one document. Safe for concurrent use once built.
type Base struct {
	// Encoding is that of the document, used for the queries of its links (URL standard, "query
	// state"). Nil: UTF-8.
	Encoding encoding.Encoding

	url    string // canonical; empty if it is not a valid base
	origin int    // length of scheme, host and port
	dir    int    // length up to the slash before the path's last segment
	path   int    // length up to the query

	once   sync.Once   // guards parsed
	parsed *whatwg.Url // parsed form of url, created on demand
}

// NewBase returns the base of a page: its own URL, unless Rebase changes it.
func NewBase(pageURL string) (*Base, error) {
	url, err := Canonical(pageURL)
	if err != nil {
		return nil, err
	}
	return newBase(url), nil
}

func newBase(url string) *Base {
	b := &Base{url: url, origin: len(Origin(url)), path: len(url)}
	if i := strings.IndexByte(url, '?'); i >= 0 {
		b.path = i
	}
	b.dir = strings.LastIndexByte(url[:b.path], '/') + 1
	return b
}

// String returns the base's canonical URL; empty if it is not crawlable.
func (b *Base) String() string { return b.url }

// Rebase returns the base after a <base href> (HTML standard, "set the frozen base URL"): b itself
// if href does not parse or is a data: or javascript: URL. Against a base of another scheme no
// relative href can be crawled, absolute ones can.
func (b *Base) Rebase(href []byte) *Base {
	url, err := b.AppendResolve(nil, href)
	if err == nil {
		other := newBase(string(url))
		other.Encoding = b.Encoding
		return other
	}
	u, perr := parse(string(href), b.parsedURL())
	if perr != nil || u.Scheme() == "data" || u.Scheme() == "javascript" {
		return b
	}
	return &Base{Encoding: b.Encoding}
}

// parsedURL returns the base for the parser; nil if nothing is relative to b.
func (b *Base) parsedURL() *whatwg.Url {
	b.once.Do(func() {
		if b.url == "" {
			return
		}
		if u, err := parser.Parse(b.url); err == nil {
			b.parsed = u
		}
	})
	return b.parsed
}

// AppendResolve appends the canonical form of href, as found in the document, to dst. Href is UTF-8
// whatever the document's encoding. On an error it returns dst unchanged: [ErrTooLong], or one that
// wraps [ErrNotCrawlable].
func (b *Base) AppendResolve(dst, href []byte) ([]byte, error) {
	href, err := trim(href)
	if err != nil {
		return dst, err
	}
	out, ok, err := b.appendFast(dst, href)
	if err != nil {
		return dst, err
	}
	if ok {
		return bounded(dst, out)
	}
	return b.appendSlow(dst, href)
}

// appendFast resolves the common hrefs; ok is false where the parser is needed.
func (b *Base) appendFast(dst, href []byte) (out []byte, ok bool, err error) {
	switch schemeOf(href) {
	case noScheme:
	case http:
		if rest, found := bytes.CutPrefix(href, []byte("http://")); found {
			out, ok = appendAuthority(append(dst, "http://"...), rest)
		} else if rest, found := bytes.CutPrefix(href, []byte("https://")); found {
			out, ok = appendAuthority(append(dst, "https://"...), rest)
		}
		return out, ok, nil
	case otherScheme:
		return dst, false, errScheme
	}
	if b.url == "" {
		return dst, false, nil
	}
	root := len(dst) + b.origin
	switch {
	case len(href) == 0 || href[0] == '#':
		return append(dst, b.url...), true, nil
	case href[0] == '?':
		out, ok = appendQuery(append(dst, b.url[:b.path]...), href)
	case len(href) > 1 && href[0] == '/' && href[1] == '/':
		scheme := b.url[:strings.IndexByte(b.url, '/')+2]
		out, ok = appendAuthority(append(dst, scheme...), href[2:])
	case href[0] == '/':
		out, ok = appendTail(append(append(dst, b.url[:b.origin]...), '/'), root, href[1:])
	default:
		out, ok = appendTail(append(dst, b.url[:b.dir]...), root, href)
	}
	return out, ok, nil
}

// appendSlow resolves with the parser.
func (b *Base) appendSlow(dst, href []byte) ([]byte, error) {
	if b.Encoding != nil {
		href = encodeQuery(href, b.Encoding)
	}
	return appendParsed(dst, href, b.parsedURL())
}

// Results of schemeOf.
const (
	noScheme    = iota // none, or the parser is needed
	http               // http: or https:
	otherScheme        // another, and so not crawlable
)

// schemeOf detects the scheme of href. White space inside, which the parser drops, yields noScheme,
// where the parser is used anyway.
func schemeOf(href []byte) int {
	for i, c := range href {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		case i > 0 && c == ':':
			if s := href[:i]; bytes.EqualFold(s, []byte("http")) || bytes.EqualFold(s, []byte("https")) {
				return http
			}
			return otherScheme
		default:
			return noScheme
		}
	}
	return noScheme
}
