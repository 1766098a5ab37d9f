package link

import (
	"strconv"
	"strings"
	"testing"
)

// TestPorts: the ports of other services are refused, by name, and those at which sites are found
// are not.
func TestPorts(t *testing.T) {
	for _, port := range []int{
		25, 6000, 10080, 873, 1433, 1521, 1883, 2181, 2375, 2376, 2379, 3306, 3389, 5432, 5672, 5984, 6379, 6443, 9042, 9092, 9200, 9300, 10250, 11211, 27017,
	} {
		for _, url := range []string{"http://a.example:", "https://a.example:", "http://[::1]:", "http://A.example:00"} {
			text := strconv.Itoa(port)
			if got, err := Canonical(url + text + "/x"); err == nil || !strings.Contains(err.Error(), "port "+text+": ") {
				t.Errorf("%s%d: %q, %v", url, port, got, err)
			}
		}
	}
	for _, port := range []int{
		81, 88, 591, 1337, 2082, 2083, 2086, 2087, 2095, 2096, 3000, 4000, 4443, 5000, 5001, 5173, 5601, 6080, 7001, 7070, 7080, 8000, 8001, 8008,
		8010, 8042, 8069, 8080, 8081, 8088, 8090, 8443, 8800, 8880, 8888, 8983, 9000, 9001, 9090, 9443, 9999, 10000, 10443, 15672, 18080, 20000, 32400,
	} {
		url := "http://a.example:" + strconv.Itoa(port) + "/"
		if got, err := Canonical(url); got != url {
			t.Errorf("%s: %q, %v", url, got, err)
		}
	}
}
