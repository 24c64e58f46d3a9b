package standalone_test

import (
	"fmt"

	"github.com/sievedb/sievedb/filter/standalone"
)

// Keys can be removed from a counting filter.
func ExampleCounting() {
	online, err := standalone.NewCounting(1000, 0.001)
	if err != nil {
		fmt.Println(err)
		return
	}
	online.Add([]byte("ada"))
	online.Add([]byte("grace"))
	online.Remove([]byte("ada"))
	fmt.Println(online.MayContain([]byte("ada")), online.MayContain([]byte("grace")), online.Len())
	// Output: false true 1
}

// A scalable filter does not need the number of keys in advance.
func ExampleScalable() {
	seen, err := standalone.NewScalable(100, 0.001)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 50_000 {
		seen.Add(fmt.Appendf(nil, "user%d", i))
	}
	fmt.Println(seen.MayContain([]byte("user49999")), seen.MayContain([]byte("user50000")))
	fmt.Println("at most one in a thousand:", seen.PredictedRate() <= 0.001)
	// Output:
	// true false
	// at most one in a thousand: true
}

// A static filter never errs for the absent keys that are known when it is made.
func ExampleNewStatic() {
	blocked := [][]byte{[]byte("spam.example"), []byte("fraud.example")}
	allowed := [][]byte{[]byte("news.example"), []byte("shop.example")}
	sites, err := standalone.NewStatic(blocked, allowed, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sites.MayContain(blocked[0]), sites.MayContain(allowed[0]), sites.MayContain(allowed[1]))
	// Output: true false false
}
