package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// maxLimitsRequest bounds the body of a request to pause or to change limits, in bytes: a few
	// dozen short values.
	maxLimitsRequest = 64 << 10
	// maxPause is the longest pause that ends by itself.
	maxPause = 366 * 24 * time.Hour
)

// pauseRequest is the body of POST /v1/pause. No body, or an empty For, is a pause without an end.
type pauseRequest struct {
	// For is a duration as Go writes them: 90m, 2h30m.
	For string `json:"for,omitempty"`
}

// pauseTime reads for how long to pause, 0 for a pause that Resume ends.
func pauseTime(body io.Reader) (time.Duration, error) {
	var ask pauseRequest
	if err := decodeSmall(body, "pause", &ask); err != nil || ask.For == "" {
		return 0, err
	}
	return ParsePause(ask.For)
}

// ParsePause reads how long a pause lasts, from a second to a year.
func ParsePause(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > maxPause {
		return 0, Usage(fmt.Sprintf("for %.40q: must be a time from 1s to %dh, such as 90m or 2h", s, int(maxPause.Hours())))
	}
	return d, nil
}

// limitValues reads the settings of POST /v1/limits: one object, keys to texts.
func limitValues(body io.Reader) (map[string]string, error) {
	var values map[string]string
	if err := decodeSmall(body, "limits", &values); err != nil {
		return nil, err
	}
	if len(values) == 0 {
		return nil, Usage("limits: nothing is set: the body must be an object such as {\"bandwidth\": \"2Mbit\"}")
	}
	return values, nil
}

// decodeSmall reads one JSON document, none at all being left as it is.
func decodeSmall(body io.Reader, what string, into any) error {
	err := decode(body, maxLimitsRequest, into)
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return Usage(fmt.Sprintf("%s: more than %d bytes", what, maxLimitsRequest))
	}
	return Usage(what + ": " + err.Error())
}

// decode reads one JSON document of known fields and at most so many bytes.
func decode(body io.Reader, most int64, into any) error {
	dec := json.NewDecoder(http.MaxBytesReader(nil, io.NopCloser(body), most))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}
