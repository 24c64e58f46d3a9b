package overview

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// mostParts is how many groups or ranges of groups a sentence lists.
const mostParts = 6

// join joins words as a sentence does: "1, 2 and 3".
func join(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + last + " " + words[len(words)-1]
}

// nodesText names nodes: "node 2", "nodes 2 and 3".
func nodesText(ids []string, last string) string {
	if len(ids) == 1 || last == "or" {
		return "node " + join(ids, last)
	}
	return "nodes " + join(ids, last)
}

// GroupsText names groups, which are sorted: "group 7", "groups 0 to 3, 7 and 9".
func GroupsText(ids []kv.GroupID) string {
	if len(ids) == 1 {
		return fmt.Sprintf("group %d", ids[0])
	}
	var parts []string
	for i := 0; i < len(ids); {
		end := i + 1
		for end < len(ids) && ids[end] == ids[end-1]+1 {
			end++
		}
		if len(parts) == mostParts-1 && end < len(ids) {
			parts = append(parts, fmt.Sprintf("%d more", len(ids)-i))
			break
		}
		switch end - i {
		case 1:
			parts = append(parts, fmt.Sprint(ids[i]))
		case 2:
			parts = append(parts, fmt.Sprint(ids[i]), fmt.Sprint(ids[i+1]))
		default:
			parts = append(parts, fmt.Sprintf("%d to %d", ids[i], ids[end-1]))
		}
		i = end
	}
	return "groups " + join(parts, "and")
}

// count writes a number with its noun, which is that of several with an s.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Number(uint64(n)) + " " + noun + "s"
}

// Number writes a number with commas.
func Number(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// Duration writes a time for people: "14 s", "5 min", "3 h", "2 d".
func Duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}

// Bytes writes a size for people: "1.5 GiB".
func Bytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value /= 1024; value < 1023.95 {
			break
		}
	}
	if value < 9.995 {
		return fmt.Sprintf("%.1f %s", value, unit)
	}
	return fmt.Sprintf("%.0f %s", value, unit)
}

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
