package internet

import "math"

// city is a location. Positions are facts, rounded; weights estimate the share of homes and
// universities, and of hosting companies and clouds, relative to other cities. They are rough
// guesses, so that crawlers and sites concentrate where real ones do.
type city struct {
	country     string
	registry    rir
	north, east float64 // degrees
	people      float64
	hosting     float64
}

// rir is one of the five regional internet registries.
type rir uint8

const (
	afrinic rir = iota
	apnic
	arin
	lacnic
	ripe
	registries
)

// firstOctets are some of the /8 blocks of each registry.
var firstOctets = [registries][]byte{
	afrinic: {41, 102, 105},
	apnic:   {1, 14, 27, 39, 42, 49, 58, 101, 103, 110, 113, 118},
	arin:    {23, 24, 50, 63, 64, 66, 67, 68, 69, 72, 74, 96, 98, 104, 107},
	lacnic:  {177, 179, 181, 186, 189, 190},
	ripe:    {31, 37, 46, 62, 77, 78, 79, 80, 81, 82, 85, 91, 93, 109},
}

var cities = []city{
	{"US", arin, 40.7, -74.0, 7, 8},   // New York
	{"US", arin, 42.4, -71.1, 5, 2},   // Boston
	{"US", arin, 38.9, -77.4, 4, 20},  // Washington, Ashburn
	{"US", arin, 33.7, -84.4, 3, 4},   // Atlanta
	{"US", arin, 25.8, -80.2, 2, 3},   // Miami
	{"US", arin, 41.9, -87.6, 4, 5},   // Chicago
	{"US", arin, 45.0, -93.3, 2, 1},   // Minneapolis
	{"US", arin, 40.0, -83.0, 2, 4},   // Columbus
	{"US", arin, 32.8, -96.8, 3, 6},   // Dallas
	{"US", arin, 29.8, -95.4, 2, 1},   // Houston
	{"US", arin, 39.7, -105.0, 2, 1},  // Denver
	{"US", arin, 40.8, -111.9, 1, 1},  // Salt Lake City
	{"US", arin, 33.4, -112.1, 2, 3},  // Phoenix
	{"US", arin, 34.1, -118.2, 4, 5},  // Los Angeles
	{"US", arin, 37.4, -122.1, 5, 10}, // San Francisco Bay
	{"US", arin, 45.6, -121.2, 1, 8},  // Oregon
	{"US", arin, 47.6, -122.3, 3, 3},  // Seattle
	{"CA", arin, 43.7, -79.4, 3, 2},   // Toronto
	{"CA", arin, 45.5, -73.6, 2, 3},   // Montreal
	{"CA", arin, 49.3, -123.1, 1, 1},  // Vancouver
	{"MX", lacnic, 19.4, -99.1, 2, 0.5},
	{"CO", lacnic, 4.7, -74.1, 1, 0.2},
	{"PE", lacnic, -12.0, -77.0, 1, 0.1},
	{"CL", lacnic, -33.4, -70.7, 1, 0.4},
	{"AR", lacnic, -34.6, -58.4, 1.5, 0.3},
	{"BR", lacnic, -23.6, -46.6, 3, 2},   // Sao Paulo
	{"BR", lacnic, -22.9, -43.2, 1, 0.3}, // Rio de Janeiro
	{"GB", ripe, 51.5, -0.1, 5, 6},       // London
	{"GB", ripe, 53.5, -2.2, 2, 1},       // Manchester
	{"IE", ripe, 53.3, -6.3, 1, 5},
	{"FR", ripe, 48.9, 2.4, 4, 5}, // Paris
	{"FR", ripe, 50.7, 3.2, 1, 2}, // Lille, Roubaix
	{"FR", ripe, 43.3, 5.4, 1, 1}, // Marseille
	{"ES", ripe, 40.4, -3.7, 2, 1},
	{"ES", ripe, 41.4, 2.2, 1.5, 0.5},
	{"PT", ripe, 38.7, -9.1, 1, 0.3},
	{"DE", ripe, 50.1, 8.7, 2, 10},   // Frankfurt
	{"DE", ripe, 52.5, 13.4, 2, 1},   // Berlin
	{"DE", ripe, 48.1, 11.6, 2, 1},   // Munich
	{"DE", ripe, 49.5, 11.1, 1, 2.5}, // Nuremberg
	{"NL", ripe, 52.4, 4.9, 2, 7},
	{"BE", ripe, 50.8, 4.4, 1, 0.5},
	{"CH", ripe, 47.4, 8.5, 1.5, 1.5},
	{"AT", ripe, 48.2, 16.4, 1, 0.5},
	{"IT", ripe, 45.5, 9.2, 2, 1.5}, // Milan
	{"IT", ripe, 41.9, 12.5, 1, 0.3},
	{"DK", ripe, 55.7, 12.6, 1, 0.5},
	{"SE", ripe, 59.3, 18.1, 1.5, 1.5},
	{"NO", ripe, 59.9, 10.8, 1, 0.4},
	{"FI", ripe, 60.2, 24.9, 1, 1},
	{"PL", ripe, 52.2, 21.0, 2, 1},
	{"CZ", ripe, 50.1, 14.4, 1, 0.5},
	{"HU", ripe, 47.5, 19.0, 1, 0.2},
	{"RO", ripe, 44.4, 26.1, 1, 0.4},
	{"GR", ripe, 38.0, 23.7, 1, 0.2},
	{"UA", ripe, 50.5, 30.5, 1, 0.3},
	{"RU", ripe, 55.8, 37.6, 2, 2},   // Moscow
	{"RU", ripe, 55.0, 82.9, 1, 0.2}, // Novosibirsk
	{"TR", ripe, 41.0, 29.0, 1.5, 0.5},
	{"IL", ripe, 32.1, 34.8, 1, 0.4},
	{"AE", ripe, 25.2, 55.3, 1, 0.6},
	{"SA", ripe, 24.7, 46.7, 1, 0.2},
	{"EG", afrinic, 30.0, 31.2, 1, 0.1},
	{"MA", afrinic, 33.6, -7.6, 0.5, 0.1},
	{"NG", afrinic, 6.5, 3.4, 0.7, 0.1},
	{"KE", afrinic, -1.3, 36.8, 0.5, 0.1},
	{"ZA", afrinic, -26.2, 28.0, 1, 0.4}, // Johannesburg
	{"ZA", afrinic, -33.9, 18.4, 0.5, 0.4},
	{"PK", apnic, 24.9, 67.0, 1, 0.1},
	{"IN", apnic, 19.1, 72.9, 2, 2},   // Mumbai
	{"IN", apnic, 28.6, 77.2, 2, 0.4}, // Delhi
	{"IN", apnic, 12.9, 77.6, 2, 0.5}, // Bangalore
	{"TH", apnic, 13.8, 100.5, 1, 0.3},
	{"VN", apnic, 21.0, 105.8, 1, 0.3},
	{"MY", apnic, 3.1, 101.7, 1, 0.3},
	{"SG", apnic, 1.4, 103.8, 2, 4},
	{"ID", apnic, -6.2, 106.8, 1, 0.4},
	{"PH", apnic, 14.6, 121.0, 1, 0.1},
	{"HK", apnic, 22.3, 114.2, 2, 2.5},
	{"CN", apnic, 39.9, 116.4, 2, 2}, // Beijing
	{"CN", apnic, 31.2, 121.5, 2, 2}, // Shanghai
	{"CN", apnic, 23.1, 113.3, 1, 1}, // Guangzhou
	{"TW", apnic, 25.0, 121.5, 1.5, 0.6},
	{"KR", apnic, 37.6, 127.0, 2.5, 2.5},
	{"JP", apnic, 35.7, 139.7, 4, 5}, // Tokyo
	{"JP", apnic, 34.7, 135.5, 1.5, 1},
	{"AU", apnic, -33.9, 151.2, 1.5, 2}, // Sydney
	{"AU", apnic, -37.8, 145.0, 1, 0.5},
	{"AU", apnic, -32.0, 115.9, 0.5, 0.2},
	{"NZ", apnic, -36.8, 174.8, 0.7, 0.2},
}

// distance returns the great-circle distance of two cities, in km.
func distance(a, b int) float64 {
	const earth, degree = 6371, math.Pi / 180
	p, q := &cities[a], &cities[b]
	north := math.Pow(math.Sin((p.north-q.north)*degree/2), 2)
	east := math.Pow(math.Sin((p.east-q.east)*degree/2), 2)
	return 2 * earth * math.Asin(math.Sqrt(north+math.Cos(p.north*degree)*math.Cos(q.north*degree)*east))
}
