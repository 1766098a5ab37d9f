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
	return Centroid(first(&r, [][]any{{"country_code"}, {"country", "iso_code"}, {"registered_country", "iso_code"}}))
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

// Centroid returns the approximate middle of a country by its ISO 3166-1 code of two capital
// letters; NoPosition for other codes, such as EU and AP, which registries use for regions.
func Centroid(code string) placement.Position {
	at, ok := centroids[code]
	if !ok {
		return placement.Position{}
	}
	return placement.Position{Lat: at[0], Lon: at[1], Precision: placement.CountryPosition}
}

// centroids are the approximate middles of all countries and territories of ISO 3166-1, in degrees
// north and east, to half a degree; also of small islands, so some points are in the sea. XK, which
// the standard leaves to its users, is Kosovo as in databases. Archipelagos have the middle of the
// land, not of the sea between.
var centroids = map[string][2]float64{
	"AD": {42.5, 1.5}, "AE": {24, 54}, "AF": {34, 66}, "AG": {17, -62}, "AI": {18, -63}, "AL": {41, 20}, "AM": {40, 45}, "AO": {-12.5, 17.5},
	"AQ": {-80, 0}, "AR": {-35, -65}, "AS": {-14.5, -170.5}, "AT": {47.5, 14}, "AU": {-25.5, 134.5}, "AW": {12.5, -70}, "AX": {60, 20}, "AZ": {40.5, 47.5},
	"BA": {44, 18}, "BB": {13, -59.5}, "BD": {24, 90}, "BE": {50.5, 4.5}, "BF": {12.5, -1.5}, "BG": {42.5, 25}, "BH": {26, 50.5}, "BI": {-3.5, 30},
	"BJ": {9.5, 2.5}, "BL": {18, -63}, "BM": {32.5, -64.5}, "BN": {4.5, 114.5}, "BO": {-16.5, -64.5}, "BQ": {12, -68.5}, "BR": {-10.5, -53}, "BS": {24.5, -77.5},
	"BT": {27.5, 90.5}, "BV": {-54.5, 3.5}, "BW": {-22, 24}, "BY": {53.5, 28}, "BZ": {17, -88.5}, "CA": {60, -96}, "CC": {-12, 97}, "CD": {-3, 23.5},
	"CF": {6.5, 20.5}, "CG": {-1, 15.5}, "CH": {47, 8}, "CI": {7.5, -5.5}, "CK": {-21, -160}, "CL": {-35.5, -71.5}, "CM": {5.5, 12.5}, "CN": {36, 103},
	"CO": {4, -73}, "CR": {10, -84}, "CU": {21.5, -79}, "CV": {16, -24}, "CW": {12, -69}, "CX": {-10.5, 105.5}, "CY": {35, 33}, "CZ": {50, 15.5},
	"DE": {51, 10.5}, "DJ": {11.5, 42.5}, "DK": {56, 9.5}, "DM": {15.5, -61.5}, "DO": {19, -70.5}, "DZ": {28, 2.5}, "EC": {-1.5, -78.5}, "EE": {58.5, 25.5},
	"EG": {26.5, 30}, "EH": {24.5, -13.5}, "ER": {15.5, 39}, "ES": {40, -3.5}, "ET": {8.5, 39.5}, "FI": {64, 26}, "FJ": {-18, 178}, "FK": {-51.5, -59},
	"FM": {7, 158}, "FO": {62, -7}, "FR": {46.5, 2.5}, "GA": {-0.5, 11.5}, "GB": {54, -2.5}, "GD": {12, -61.5}, "GE": {42, 43.5}, "GF": {4, -53},
	"GG": {49.5, -2.5}, "GH": {8, -1}, "GI": {36, -5.5}, "GL": {72, -40}, "GM": {13.5, -15.5}, "GN": {10.5, -11}, "GP": {16, -61.5}, "GQ": {1.5, 10.5},
	"GR": {39, 22.5}, "GS": {-54.5, -37}, "GT": {15.5, -90.5}, "GU": {13.5, 145}, "GW": {12, -15}, "GY": {5, -59}, "HK": {22.5, 114}, "HM": {-53, 73.5},
	"HN": {15, -86.5}, "HR": {45, 16}, "HT": {19, -72.5}, "HU": {47, 19.5}, "ID": {-2.5, 117.5}, "IE": {53, -8}, "IL": {31.5, 35}, "IM": {54, -4.5},
	"IN": {22.5, 79.5}, "IO": {-7.5, 72.5}, "IQ": {33, 43.5}, "IR": {32.5, 54.5}, "IS": {65, -18.5}, "IT": {43, 12.5}, "JE": {49, -2}, "JM": {18, -77.5},
	"JO": {31.5, 36.5}, "JP": {37, 138}, "KE": {0.5, 38}, "KG": {41.5, 74.5}, "KH": {12.5, 105}, "KI": {1.5, 173}, "KM": {-12, 43.5}, "KN": {17.5, -62.5},
	"KP": {40, 127}, "KR": {36.5, 128}, "KW": {29.5, 47.5}, "KY": {19.5, -81}, "KZ": {48, 67.5}, "LA": {18.5, 104}, "LB": {34, 36}, "LC": {14, -61},
	"LI": {47, 9.5}, "LK": {7.5, 80.5}, "LR": {6.5, -9.5}, "LS": {-29.5, 28}, "LT": {55.5, 24}, "LU": {50, 6}, "LV": {57, 25}, "LY": {27, 18},
	"MA": {32, -6.5}, "MC": {43.5, 7.5}, "MD": {47, 28.5}, "ME": {43, 19}, "MF": {18, -63}, "MG": {-19.5, 46.5}, "MH": {7, 171}, "MK": {41.5, 21.5},
	"ML": {17.5, -4}, "MM": {21, 96.5}, "MN": {47, 103}, "MO": {22, 113.5}, "MP": {15, 145.5}, "MQ": {14.5, -61}, "MR": {20, -10.5}, "MS": {16.5, -62},
	"MT": {36, 14.5}, "MU": {-20.5, 57.5}, "MV": {3.5, 73}, "MW": {-13.5, 34}, "MX": {24, -102.5}, "MY": {4, 109.5}, "MZ": {-17.5, 35.5}, "NA": {-22, 17},
	"NC": {-21.5, 165.5}, "NE": {17.5, 9.5}, "NF": {-29, 168}, "NG": {9.5, 8}, "NI": {13, -85}, "NL": {52, 5.5}, "NO": {64.5, 13}, "NP": {28, 84},
	"NR": {-0.5, 167}, "NU": {-19, -170}, "NZ": {-41.5, 172.5}, "OM": {20.5, 56}, "PA": {8.5, -80}, "PE": {-9, -74.5}, "PF": {-17.5, -149.5}, "PG": {-6.5, 145},
	"PH": {12, 123}, "PK": {30, 69.5}, "PL": {52, 19.5}, "PM": {47, -56.5}, "PN": {-24.5, -128.5}, "PR": {18, -66.5}, "PS": {32, 35}, "PT": {39.5, -8},
	"PW": {7.5, 134.5}, "PY": {-23, -58.5}, "QA": {25.5, 51}, "RE": {-21, 55.5}, "RO": {46, 25}, "RS": {44, 21}, "RU": {62, 97}, "RW": {-2, 30},
	"SA": {24, 44.5}, "SB": {-9, 160}, "SC": {-4.5, 55.5}, "SD": {16, 30}, "SE": {62.5, 16.5}, "SG": {1.5, 104}, "SH": {-16, -5.5}, "SI": {46, 15},
	"SJ": {78.5, 16}, "SK": {48.5, 19.5}, "SL": {8.5, -12}, "SM": {44, 12.5}, "SN": {14.5, -14.5}, "SO": {6, 46}, "SR": {4, -56}, "SS": {7.5, 30},
	"ST": {0.5, 7}, "SV": {13.5, -89}, "SX": {18, -63}, "SY": {35, 38.5}, "SZ": {-26.5, 31.5}, "TC": {22, -72}, "TD": {15.5, 18.5}, "TF": {-49.5, 69.5},
	"TG": {8.5, 1}, "TH": {15, 101}, "TJ": {38.5, 71}, "TK": {-9, -172}, "TL": {-9, 126}, "TM": {39, 59.5}, "TN": {34, 9.5}, "TO": {-21, -175},
	"TR": {39, 35.5}, "TT": {10.5, -61.5}, "TV": {-8.5, 179}, "TW": {23.5, 121}, "TZ": {-6.5, 35}, "UA": {49, 31.5}, "UG": {1.5, 32.5}, "UM": {19.5, 166.5},
	"US": {39.5, -98.5}, "UY": {-33, -56}, "UZ": {41.5, 63.5}, "VA": {42, 12.5}, "VC": {13, -61}, "VE": {7, -66}, "VG": {18.5, -64.5}, "VI": {18, -65},
	"VN": {16.5, 106.5}, "VU": {-16, 167}, "WF": {-13.5, -177}, "WS": {-13.5, -172.5}, "XK": {42.5, 21}, "YE": {16, 47.5}, "YT": {-13, 45}, "ZA": {-29, 25},
	"ZM": {-13.5, 28}, "ZW": {-19, 30},
}
