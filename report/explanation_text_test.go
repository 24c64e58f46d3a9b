package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStepWorkIsInOrder(t *testing.T) {
	cases := []struct {
		name string
		step ExplainStep
		want []string
	}{
		{"opened, and read from disk", ExplainStep{Opened: true, OpeningReads: 2, OpeningBytes: 900, IndexSearched: true, IndexRead: true, IndexBytes: 70,
			BlockFromDisk: true, BlockBytes: 4000, BytesRead: 4070, OpenTime: 4, FilterTime: 3, IndexTime: 2, SearchTime: 1},
			[]string{"opened by 2 reads (900 bytes) 4ns", "filter 3ns", "index read from disk (70 bytes) 2ns", "data block from disk (4000 bytes) 1ns"}},
		{"ruled out by the filter of a block", ExplainStep{Filter: "absent", IndexSearched: true},
			[]string{"filter 0s", "index from memory 0s", "no data block 0s"}},
		{"ruled out by the filter of the table", ExplainStep{Filter: "absent"}, []string{"filter 0s"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, c.step.work()) })
	}
	require.Equal(t, `"a\x00b"`, shortKey([]byte("a\x00b")))
	require.Equal(t, `"`+string(bytes.Repeat([]byte("k"), 32))+`"…`, shortKey(bytes.Repeat([]byte("k"), 100)))
}

func TestSumIsOneLine(t *testing.T) {
	var b strings.Builder
	(&Explanation{Found: true, DiskReads: 1, BytesRead: 70, ReadsSaved: 2, Duration: 5}).writeSum(&b)
	(&Explanation{Expired: true}).writeSum(&b)
	(&Explanation{Deleted: true, OpeningReads: 2, OpeningBytes: 9}).writeSum(&b)
	require.Equal(t, "found: 1 disk read (70 bytes), 2 saved by filters, 0 wasted; 5ns\n"+
		"expired: 0 disk reads (0 bytes), 0 saved by filters, 0 wasted; 0s\n"+
		"deleted: 0 disk reads (0 bytes), 0 saved by filters, 0 wasted; 2 reads (9 bytes) to open tables; 0s\n", b.String())
}

func TestTextOfAnExplanation(t *testing.T) {
	x := Explanation{Found: true, Duration: 9, Steps: []ExplainStep{
		{Run: "memtable", Level: -1, Filter: "none", Duration: 1},
		{Run: "table", Level: 2, FileNum: 7, Bytes: 500, Smallest: []byte("a"), Largest: []byte("z"), Filter: "maybe", FilterPolicy: "test.P", Found: true, Duration: 8,
			IndexSearched: true, BlockFromDisk: true, BlockBytes: 90, BytesRead: 90},
	}}
	require.Equal(t, `memtable                 filter: none    not here, 1ns
level 2 table 000007     filter: maybe by test.P found, 8ns
                         500 bytes, keys "a" to "z"
                         filter 0s, index from memory 0s, data block from disk (90 bytes) 0s
found: 0 disk reads (0 bytes), 0 saved by filters, 0 wasted; 9ns
`, x.String())
}
