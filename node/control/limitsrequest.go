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
	// maxLimitsRequest limits the body of a request to pause or to change limits, in bytes.
	maxLimitsRequest = 64 << 10
	// maxPause is the longest timed pause.
	maxPause = 366 * 24 * time.Hour
)

// pauseRequest is the body of POST /v1/pause. No body, or an empty For, is a pause without an end.
type pauseRequest struct {
	// For is a duration as Go writes them: 90m, 2h30m.
	For string `json:"for,omitempty"`
}

// pauseTime parses the duration of a pause, 0 for one without an end.
func pauseTime(body io.Reader) (time.Duration, error) {
	var ask pauseRequest
	if err := decodeSmall(body, "pause", &ask); err != nil || ask.For == "" {
		return 0, err
	}
	return ParsePause(ask.For)
}

// ParsePause parses the duration of a pause, from a second to a year.
func ParsePause(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > maxPause {
		return 0, Usage(fmt.Sprintf("for %.40q: must be a duration from 1s to %dh, such as 90m or 2h", s, int(maxPause.Hours())))
	}
	return d, nil
}

// limitValues decodes the settings of POST /v1/limits: one object, keys to texts.
func limitValues(body io.Reader) (map[string]string, error) {
	var values map[string]string
	if err := decodeSmall(body, "limits", &values); err != nil {
		return nil, err
	}
	if len(values) == 0 {
		return nil, Usage("limits: no settings: the body must be an object such as {\"bandwidth\": \"2Mbit\"}")
	}
	return values, nil
}

// decodeSmall decodes one JSON document; an empty body is no error.
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

// decode decodes one JSON document with known fields and at most most bytes.
func decode(body io.Reader, most int64, into any) error {
	dec := json.NewDecoder(http.MaxBytesReader(nil, io.NopCloser(body), most))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}
