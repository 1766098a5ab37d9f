// Package geoip looks up positions of addresses in a MaxMind DB file: the [placement.Locator] of
// the geo strategy.
//
// Both usual layouts of records are supported: the flat one with country_code, city, latitude and
// longitude, and MaxMind's nested one with country.iso_code, city and location. A record without
// coordinates gets the middle of its country, from a table of this package; every answer has its
// precision. Nothing is written or downloaded: the operator provides a database and complies with
// its license.
package geoip

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"strconv"

	"github.com/oschwald/maxminddb-golang/v2"

	"github.com/apoidea/apoidea/crawl/placement"
)

// maxFile bounds a database in bytes: those of cities are 130 MB at most. It is read into memory,
// since truncating a mapped file while replacing it would end the process.
const maxFile = 512 << 20

// DB is a database of positions. It is safe for concurrent use, and need not be closed.
type DB struct {
	reader *maxminddb.Reader
}

var _ placement.Locator = (*DB)(nil)

// Open reads a database file.
func Open(path string) (*DB, error) {
	data, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("GeoIP database: %w", err)
	}
	db, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("GeoIP database %s: %w", path, err)
	}
	return db, nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("GeoIP database %s: exceeds %d MiB", path, maxFile>>20)
	}
	return data, nil
}

// Decode uses the bytes of a database, which must not be modified afterwards.
func Decode(data []byte) (*DB, error) {
	reader, err := maxminddb.OpenBytes(data)
	if err != nil {
		return nil, fmt.Errorf("not an uncompressed MaxMind DB file (.mmdb): %w", err)
	}
	return &DB{reader}, nil
}

// Type returns the type in the database's metadata.
func (db *DB) Type() string { return db.reader.Metadata.DatabaseType }

// country returns the ISO code of a record's country, "" if unknown.
func country(r *maxminddb.Result) string {
	return first(r, [][]any{{"country_code"}, {"country", "iso_code"}, {"registered_country", "iso_code"}})
}

// Locate implements placement.Locator. An invalid record has no position.
func (db *DB) Locate(addr netip.Addr) placement.Position {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() {
		return placement.Position{}
	}
	r := db.reader.Lookup(addr)
	if r.Err() != nil || !r.Found() { // such as IPv6 in a database of IPv4
		return placement.Position{}
	}
	if at, ok := coordinates(&r); ok {
		return at
	}
	return Centroid(country(&r))
}

// coordinates returns those of a record. Without the name of a city they are an approximate middle
// of the country. Some databases use zero and zero for an unknown position.
func coordinates(r *maxminddb.Result) (placement.Position, bool) {
	for _, at := range [][2][]any{{{"latitude"}, {"longitude"}}, {{"location", "latitude"}, {"location", "longitude"}}} {
		lat, north := degrees(r, at[0], 90)
		lon, east := degrees(r, at[1], 180)
		if !north || !east || lat == 0 && lon == 0 {
			continue
		}
		p := placement.Position{Lat: lat, Lon: lon, Precision: placement.CountryPosition}
		if first(r, [][]any{{"city"}, {"city", "names", "en"}}) != "" {
			p.Precision = placement.CityPosition
		}
		return p, true
	}
	return placement.Position{}, false
}

// degrees returns a number of a record, or a text that contains one; false if it is neither, or out
// of range.
func degrees(r *maxminddb.Result, path []any, most float64) (float64, bool) {
	v := math.NaN() // if there is no value
	if r.DecodePath(&v, path...) != nil {
		var text string
		if r.DecodePath(&text, path...) != nil {
			return 0, false
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, false
		}
		v = n
	}
	return v, math.Abs(v) <= most // false for NaN
}

// first returns the first text of a record that exists.
func first(r *maxminddb.Result, paths [][]any) string {
	for _, path := range paths {
		var text string
		if r.DecodePath(&text, path...) == nil && text != "" {
			return text
		}
	}
	return ""
}
