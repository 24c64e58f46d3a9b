package filter_test

import (
	"fmt"

	"github.com/sievedb/sievedb/filter"
)

// Keys can be taken out of a CountingBloom.
func ExampleCountingBloom() {
	online, err := filter.NewCountingBloom(1000, 0.001)
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

// A ScalableBloom need not know how many keys there will be.
func ExampleScalableBloom() {
	seen, err := filter.NewScalableBloom(100, 0.001)
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
