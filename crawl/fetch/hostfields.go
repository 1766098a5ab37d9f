package fetch

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/apoidea/apoidea/crawl/link"
)

// HostFields are request fields by the origin that they are sent to, such as https://a.example.
// They may contain passwords, so they are sent to no other server, and archived only if requested.
type HostFields map[string]http.Header

// Add parses "HOST: Name: value". The field is sent to HOST over https only, or over http only
// where HOST begins with http://.
func (h HostFields) Add(text string) error {
	host, field, ok := strings.Cut(text, ": ")
	name, value, also := strings.Cut(field, ":")
	if !ok || !also {
		return errors.New("must be HOST: Name: value")
	}
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	url, err := link.Canonical(host)
	switch {
	case err != nil:
		return fmt.Errorf("host %q: %w", host, err)
	case link.PathQuery(url) != "/":
		return fmt.Errorf("host %q: must not have a path", host)
	}
	name, value = http.CanonicalHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
	switch {
	case !httpguts.ValidHeaderFieldName(name) || ownFields[name] && name != "Cookie":
		return fmt.Errorf("field %q cannot be set", name)
	case !httpguts.ValidHeaderFieldValue(value):
		return fmt.Errorf("field %s: invalid value", name)
	}
	origin := link.Origin(url)
	if h[origin] == nil {
		h[origin] = make(http.Header)
	}
	h[origin][name] = append(h[origin][name], value)
	return nil
}
