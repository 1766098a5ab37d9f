package link

import (
	"fmt"
	"strconv"
	"strings"
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
