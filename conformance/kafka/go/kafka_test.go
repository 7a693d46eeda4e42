// What franz-go, the Go client of Kafka, is promised.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"fourfold/conformance/support"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const soon = 60 * time.Second

func client(t *testing.T, b *fourfold.Broker, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append([]kgo.Opt{kgo.SeedBrokers(b.Kafka())}, options...)
	one, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(one.Close)
	return one
}

func create(t *testing.T, b *fourfold.Broker, topic string, partitions int32) {
	t.Helper()
	made, err := kadm.NewClient(client(t, b)).CreateTopic(t.Context(), partitions, 1, nil, topic)
	if err != nil || made.Err != nil {
		t.Fatal(err, made.Err)
	}
}

func send(t *testing.T, by *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	within, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if err := by.ProduceSync(within, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func take(t *testing.T, by *kgo.Client, count int) (got []*kgo.Record) {
	t.Helper()
	within, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for len(got) < count {
		fetches := by.PollFetches(within)
		if err := within.Err(); err != nil {
			t.Fatalf("%d of %d records: %v", len(got), count, err)
		}
		got = append(got, fetches.Records()...)
	}
	return got
}

// readAll reads count records of the topic from its start, without a group.
func readAll(t *testing.T, b *fourfold.Broker, topic string, count int) []*kgo.Record {
	t.Helper()
	by := client(t, b, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer by.Close()
	return take(t, by, count)
}

func numbered(topic string, from, to int) (records []*kgo.Record) {
	for n := from; n < to; n++ {
		records = append(records, &kgo.Record{Topic: topic, Key: fmt.Append(nil, n%16), Value: fmt.Append(nil, n)})
	}
	return records
}

func values(records []*kgo.Record) (all []int) {
	for _, one := range records {
		var n int
		fmt.Sscan(string(one.Value), &n)
		all = append(all, n)
	}
	return all
}

func upTo(count int) (all []int) {
	for n := range count {
		all = append(all, n)
	}
	return all
}

func TestRecordsComeBackAsSentInEachCodec(t *testing.T) {
	b := fourfold.Start(t)
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for codec, compression := range codecs {
		t.Run(codec, func(t *testing.T) {
			topic := fourfold.Name(t)
			create(t, b, topic, 1)
			sent := numbered(topic, 0, 200)
			sent[7].Headers = []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "null", Value: nil}}
			sent[8].Key, sent[9].Value = nil, nil
			send(t, client(t, b, kgo.ProducerBatchCompression(compression), kgo.ProducerLinger(20*time.Millisecond)), sent...)
			for n, one := range readAll(t, b, topic, 200) {
				want := sent[n]
				same := one.Offset == int64(n) && string(one.Key) == string(want.Key) && string(one.Value) == string(want.Value) &&
					(one.Key == nil) == (want.Key == nil) && (one.Value == nil) == (want.Value == nil) &&
					len(one.Headers) == len(want.Headers) && one.Timestamp.Equal(want.Timestamp)
				if !same {
					t.Fatalf("%+v instead of %+v", one, want)
				}
			}
		})
	}
}

func TestKeysChooseThePartitionsThatJavaWouldChoose(t *testing.T) {
	b, topic := fourfold.Start(t), fourfold.Name(t)
	create(t, b, topic, 10)
	by := client(t, b)
	for key, wanted := range map[string]int32{"order-1": 6, "order-2": 3, "abc": 7} {
		one := &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte("x")}
		send(t, by, one)
		if one.Partition != wanted {
			t.Errorf("%s went to %d instead of %d", key, one.Partition, wanted)
		}
	}
}

func TestLostAnswersMakeNoSecondCopy(t *testing.T) {
	b, topic := fourfold.Start(t), fourfold.Name(t)
	create(t, b, topic, 1)
	proxy := fourfold.Proxy(t, b)
	by := client(t, b, kgo.SeedBrokers(proxy.Address), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	for round := range 4 {
		if round > 0 {
			proxy.LoseProduceAnswers(1)
		}
		send(t, by, numbered(topic, round*20, round*20+20)...)
	}
	if proxy.Lost() != 3 {
		t.Fatalf("%d answers were lost", proxy.Lost())
	}
	send(t, by, numbered(topic, 80, 81)...)
	if got := values(readAll(t, b, topic, 81)); !slices.Equal(got, upTo(81)) {
		t.Fatal(got)
	}
}

func member(t *testing.T, b *fourfold.Broker, group, topic string, balancer kgo.GroupBalancer) *kgo.Client {
	return client(t, b, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.Balancers(balancer), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(300*time.Millisecond))
}

func awaitShares(t *testing.T, b *fourfold.Broker, group string, members int, wanted ...[]int32) {
	t.Helper()
	admin := kadm.NewClient(client(t, b))
	var last string
	fourfold.Eventually(t, fmt.Sprintf("partitions are shared as %v", wanted), soon, func() bool {
		described, err := admin.DescribeGroups(t.Context(), group)
		if err != nil {
			return false
		}
		var shares [][]int32
		for _, one := range described[group].Members {
			assigned, is := one.Assigned.AsConsumer()
			if !is {
				return false
			}
			var share []int32
			for _, topic := range assigned.Topics {
				share = append(share, topic.Partitions...)
			}
			slices.Sort(share)
			shares = append(shares, share)
		}
		slices.SortFunc(shares, slices.Compare)
		last = fmt.Sprint(shares)
		return described[group].State == "Stable" && len(shares) == members && (len(wanted) == 0 || last == fmt.Sprint(wanted))
	})
}

func TestGroupsShareTenPartitionsAsTheirBalancersSay(t *testing.T) {
	b := fourfold.Start(t)
	cases := map[string]struct {
		balancer kgo.GroupBalancer
		shares   [][]int32
	}{
		"range":      {kgo.RangeBalancer(), [][]int32{{0, 1, 2, 3}, {4, 5, 6}, {7, 8, 9}}},
		"roundrobin": {kgo.RoundRobinBalancer(), [][]int32{{0, 3, 6, 9}, {1, 4, 7}, {2, 5, 8}}},
	}
	for how, one := range cases {
		t.Run(how, func(t *testing.T) {
			topic := fourfold.Name(t)
			create(t, b, topic, 10)
			for range 3 {
				member(t, b, topic, topic, one.balancer)
			}
			awaitShares(t, b, topic, 3, one.shares...)
		})
	}
}

func TestAGroupGrowsAndShrinksAndEveryRecordIsRead(t *testing.T) {
	b, topic := fourfold.Start(t), fourfold.Name(t)
	create(t, b, topic, 6)
	got := make(chan *kgo.Record, 1000)
	poll := func(one *kgo.Client) {
		for {
			fetches := one.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			fetches.EachRecord(func(record *kgo.Record) { got <- record })
		}
	}
	var members []*kgo.Client
	for n := range 3 {
		members = append(members, member(t, b, topic, topic, kgo.CooperativeStickyBalancer()))
		go poll(members[n])
		awaitShares(t, b, topic, n+1)
	}
	send(t, client(t, b), numbered(topic, 0, 300)...)
	seen := map[int]int{}
	for len(seen) < 300 {
		select {
		case record := <-got:
			seen[values([]*kgo.Record{record})[0]]++
		case <-time.After(soon):
			t.Fatalf("%d of 300", len(seen))
		}
	}
	for n, times := range seen {
		if times != 1 {
			t.Errorf("%d was read %d times", n, times)
		}
	}
	members[0].Close()
	awaitShares(t, b, topic, 2)
}

func TestCommittedOffsetsAreWhereAGroupGoesOn(t *testing.T) {
	b, topic := fourfold.Start(t), fourfold.Name(t)
	create(t, b, topic, 1)
	send(t, client(t, b), numbered(topic, 0, 10)...)
	one := member(t, b, topic, topic, kgo.RangeBalancer())
	got := take(t, one, 10)
	if err := one.CommitRecords(t.Context(), got[3]); err != nil {
		t.Fatal(err)
	}
	one.Close()
	if got := values(take(t, member(t, b, topic, topic, kgo.RangeBalancer()), 6)); !slices.Equal(got, []int{4, 5, 6, 7, 8, 9}) {
		t.Fatal(got)
	}
}

func TestSeekByTimeFindsTheRecordInsideABatch(t *testing.T) {
	b, topic := fourfold.Start(t), fourfold.Name(t)
	create(t, b, topic, 1)
	records := numbered(topic, 0, 50)
	for n, one := range records {
		one.Timestamp = time.UnixMilli(1_700_000_000_000 + int64(n))
	}
	send(t, client(t, b, kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerLinger(time.Second)), records...)
	admin := kadm.NewClient(client(t, b))
	for at, wanted := range map[int64]int64{1_700_000_000_020: 20, 1: 0} {
		listed, err := admin.ListOffsetsAfterMilli(t.Context(), at, topic)
		if err != nil {
			t.Fatal(err)
		}
		if found, _ := listed.Lookup(topic, 0); found.Offset != wanted {
			t.Errorf("%d: %d instead of %d", at, found.Offset, wanted)
		}
	}
}

func TestErrorsAreKafkasOwn(t *testing.T) {
	b, topic := fourfold.Start(t), fourfold.Name(t)
	create(t, b, topic, 1)
	admin := kadm.NewClient(client(t, b))
	text := "abc"
	cases := []struct {
		wanted     error
		name       string
		partitions int32
		replicas   int16
		configs    map[string]*string
	}{
		{kerr.TopicAlreadyExists, topic, 1, 1, nil},
		{kerr.InvalidReplicationFactor, topic + "-r", 1, 3, nil},
		{kerr.InvalidPartitions, topic + "-p", 0, 1, nil},
		{kerr.InvalidConfig, topic + "-c", 1, 1, map[string]*string{"retention.ms": &text}},
		{kerr.InvalidTopicException, "no/such name", 1, 1, nil},
	}
	for _, one := range cases {
		made, err := admin.CreateTopic(t.Context(), one.partitions, one.replicas, one.configs, one.name)
		if !errors.Is(made.Err, one.wanted) && !errors.Is(err, one.wanted) {
			t.Errorf("%s: %v, %v instead of %v", one.name, err, made.Err, one.wanted)
		}
	}
	within, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	by := client(t, b, kgo.ProducerBatchMaxBytes(8<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	huge := &kgo.Record{Topic: topic, Value: make([]byte, 6<<20)}
	if err := by.ProduceSync(within, huge).FirstErr(); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("a record of 6 MiB: %v", err)
	}
	send(t, by, numbered(topic, 0, 1)...)
}

func TestAcknowledgedRecordsAndCommittedOffsetsSurvive(t *testing.T) {
	for how, end := range map[string]func(*fourfold.Broker){"stop": (*fourfold.Broker).Stop, "kill": (*fourfold.Broker).Kill} {
		t.Run(how, func(t *testing.T) {
			b, topic := fourfold.Start(t), fourfold.Name(t)
			create(t, b, topic, 1)
			by := client(t, b)
			send(t, by, numbered(topic, 0, 500)...)
			one := member(t, b, topic, topic, kgo.RangeBalancer())
			got := take(t, one, 10)
			if err := one.CommitRecords(t.Context(), got[9]); err != nil {
				t.Fatal(err)
			}
			one.Close()
			end(b)
			b.Restart()
			send(t, by, numbered(topic, 500, 600)...)
			if got := values(readAll(t, b, topic, 600)); !slices.Equal(got, upTo(600)) {
				t.Fatal(got)
			}
			if got := values(take(t, member(t, b, topic, topic, kgo.RangeBalancer()), 1)); got[0] != 10 {
				t.Fatalf("the group went on at %d", got[0])
			}
		})
	}
}
