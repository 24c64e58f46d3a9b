package db_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/sievedb/sievedb/db"
)

// pointKey has the day, the number of the series and the time, big-endian, so that the keys of a day are neighbours.
// It is for times from 1970 to 2262: earlier ones would be negative, and not in order.
func pointKey(dayNumber int64, series uint32, nanos int64) []byte {
	key := binary.BigEndian.AppendUint32(nil, uint32(dayNumber))
	key = binary.BigEndian.AppendUint32(key, series)
	return binary.BigEndian.AppendUint64(key, uint64(nanos))
}

const day = 24 * 60 * 60 // seconds

// addPoint adds a point to a batch for the namespace.
func addPoint(b *db.Batch, ns *db.Namespace, series uint32, at time.Time, value float64) {
	key := ns.Key(pointKey(at.Unix()/day, series, at.UnixNano()))
	b.Put(key, binary.BigEndian.AppendUint64(nil, math.Float64bits(value)))
}

// eachPoint calls fn for the points of a series from a time to another, which is not included.
func eachPoint(ns *db.Namespace, series uint32, from, to time.Time, fn func(at time.Time, value float64)) error {
	it, err := ns.NewIterator(nil) // one iterator, so that all days are seen at one moment
	if err != nil {
		return err
	}
	defer it.Close()
	for d := from.Unix() / day; d <= to.Unix()/day; d++ {
		it.SetBounds(pointKey(d, series, from.UnixNano()), pointKey(d, series, to.UnixNano()))
		for ok := it.First(); ok; ok = it.Next() {
			nanos := int64(binary.BigEndian.Uint64(it.Key()[8:]))
			fn(time.Unix(0, nanos).UTC(), math.Float64frombits(binary.BigEndian.Uint64(it.Value())))
		}
	}
	return it.Err()
}

// dropBefore deletes all series up to the beginning of the day of a time.
func dropBefore(ctx context.Context, ns *db.Namespace, at time.Time) error {
	return ns.DeleteRange(ctx, nil, pointKey(at.Unix()/day, 0, 0), nil)
}

func Example_cookbookSeries() {
	store := openMem()
	defer store.Close()
	ns, err := store.Namespace("points")
	must(err)

	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var b db.Batch
	for hour := range 72 {
		addPoint(&b, ns, 1, noon.Add(time.Duration(hour)*time.Hour), float64(hour))
		addPoint(&b, ns, 2, noon.Add(time.Duration(hour)*time.Hour), -1)
	}
	must(store.Apply(&b, db.NoSync))

	show := func(from, to time.Time) {
		points, sum := 0, 0.0
		must(eachPoint(ns, 1, from, to, func(_ time.Time, value float64) { points, sum = points+1, sum+value }))
		fmt.Println(points, "points, sum", sum)
	}
	show(noon.Add(10*time.Hour), noon.Add(14*time.Hour)) // over midnight
	must(dropBefore(context.Background(), ns, noon.Add(36*time.Hour)))
	show(noon, noon.Add(72*time.Hour))
	// Output:
	// 4 points, sum 46
	// 36 points, sum 1926
}
