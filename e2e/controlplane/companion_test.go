package controlplane

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestFreeAddressIsNobodyElses: a test failed whose companion met a connection of another process
// on its port.
func TestFreeAddressIsNobodyElses(t *testing.T) {
	seen := map[string]bool{}
	for range 300 {
		address, err := FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		if seen[address] {
			t.Errorf("%s was given twice", address)
		}
		seen[address] = true
	}
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Logf("this kernel does not tell which ports it gives to connections: %v", err)
		return
	}
	lowest, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil {
		t.Fatal(err)
	}
	for address := range seen {
		if _, port, _ := net.SplitHostPort(address); port >= strconv.Itoa(lowest) {
			t.Errorf("%s is among the ports from %d on that the kernel gives to connections", address, lowest)
		}
	}
}
