package amqp

import (
	"context"
	"fmt"
	"testing"
	"time"

	"fourfold/conformance/support"

	amqp "github.com/rabbitmq/amqp091-go"
)

// stream declares a stream and puts the bodies "0", "1", ... into it.
func stream(t *testing.T, channel *amqp.Channel, name string, count int) {
	t.Helper()
	_, err := channel.QueueDeclare(name, true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeStream})
	must(t, err)
	put(t, channel, "", name, numbers(0, count)...)
}

// read consumes from a place (nil: none is named) on a channel of its own.
func read(t *testing.T, connection *amqp.Connection, name string, offset any) <-chan amqp.Delivery {
	t.Helper()
	channel := open(t, connection)
	must(t, channel.Qos(10, 0, false))
	place := amqp.Table{}
	if offset != nil {
		place["x-stream-offset"] = offset
	}
	deliveries, err := channel.ConsumeWithContext(context.Background(), name, "", false, false, false, false, place)
	must(t, err)
	return deliveries
}

// takes acknowledges what must be the messages from..to, each with its offset in the header.
func takes(t *testing.T, deliveries <-chan amqp.Delivery, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		one := take(t, deliveries)
		if string(one.Body) != fmt.Sprint(n) || one.Headers["x-stream-offset"] != int64(n) || one.Redelivered {
			t.Fatalf("%s at %v (redelivered %v) instead of %d", one.Body, one.Headers["x-stream-offset"], one.Redelivered, n)
		}
		must(t, one.Ack(false))
	}
}

func connect(t *testing.T, b *fourfold.Broker) *amqp.Connection {
	t.Helper()
	connection, err := amqp.Dial(b.AMQP())
	must(t, err)
	t.Cleanup(func() { connection.Close() })
	return connection
}

func TestAReaderOfAStreamBeginsWhereItAsksTo(t *testing.T) {
	b := fourfold.Start(t)
	connection, name := connect(t, b), fourfold.Name(t)
	channel := open(t, connection)
	stream(t, channel, name, 50)
	for _, first := range []any{"first", 0, int64(0), time.Now().Add(-time.Hour), "1h"} {
		takes(t, read(t, connection, name, first), 0, 50)
	}
	takes(t, read(t, connection, name, 20), 20, 50)
	takes(t, read(t, connection, name, int64(49)), 49, 50)
	var behind []<-chan amqp.Delivery
	for _, next := range []any{nil, "next", int64(50), time.Now().Add(time.Hour)} {
		behind = append(behind, read(t, connection, name, next))
	}
	last := read(t, connection, name, "last")
	put(t, channel, "", name, numbers(50, 60)...)
	for _, one := range behind {
		takes(t, one, 50, 60)
	}
	// The last chunk: what was published together may come together, so only where it ends is sure.
	first := take(t, last)
	from, is := first.Headers["x-stream-offset"].(int64)
	if !is || from >= 50 || string(first.Body) != fmt.Sprint(from) {
		t.Fatalf("last is %s at %v", first.Body, first.Headers)
	}
	must(t, first.Ack(false))
	takes(t, last, int(from)+1, 60)
}

func TestReadersOfAStreamHaveTheirOwnPlaces(t *testing.T) {
	b := fourfold.Start(t)
	connection, name := connect(t, b), fourfold.Name(t)
	channel := open(t, connection)
	stream(t, channel, name, 100)
	slow := read(t, connection, name, "first")
	takes(t, slow, 0, 5)
	takes(t, read(t, connect(t, b), name, "first"), 0, 100)
	takes(t, slow, 5, 100)
	takes(t, read(t, connection, name, 60), 60, 100)
	// Acknowledgements remove nothing. RabbitMQ counts the messages of a stream only now and then.
	fourfold.Eventually(t, "all 100 are there", soon, func() bool { return depth(t, channel, name) == 100 })
}

func TestWhatStreamsDoNotDoIsRefused(t *testing.T) {
	b := fourfold.Start(t)
	name := fourfold.Name(t)
	stream(t, dial(t, b), name, 1)
	it := "queue '" + name + "' in vhost '/'"
	cases := []struct {
		code int
		text string
		act  func(*amqp.Channel) error
	}{
		{406, "PRECONDITION_FAILED - consumer prefetch count is not set for '" + it + "'", func(c *amqp.Channel) error {
			_, err := c.Consume(name, "", false, false, false, false, nil)
			return err
		}},
		{540, "NOT_IMPLEMENTED - automatic acknowledgement not supported by stream queues " + it, func(c *amqp.Channel) error {
			must(t, c.Qos(1, 0, false))
			_, err := c.Consume(name, "", true, false, false, false, nil)
			return err
		}},
		{540, "NOT_IMPLEMENTED - basic.get not supported by stream queues " + it, func(c *amqp.Channel) error {
			_, _, err := c.Get(name, false)
			return err
		}},
		{540, "NOT_IMPLEMENTED - queue.purge not supported by stream queues " + it, func(c *amqp.Channel) error {
			_, err := c.QueuePurge(name, false)
			return err
		}},
	}
	for _, one := range cases {
		// 540 ends the connection: each has its own.
		err, is := one.act(dial(t, b)).(*amqp.Error)
		if !is || err.Code != one.code || err.Reason != one.text {
			t.Errorf("%+v instead of %d %s", err, one.code, one.text)
		}
	}
}

func TestAStreamAndItsOffsetsSurvive(t *testing.T) {
	for how, end := range map[string]func(*fourfold.Broker){"stop": (*fourfold.Broker).Stop, "kill": (*fourfold.Broker).Kill} {
		t.Run(how, func(t *testing.T) {
			b := fourfold.Start(t)
			name := fourfold.Name(t)
			stream(t, dial(t, b), name, 300)
			end(b)
			b.Restart()
			connection := connect(t, b)
			channel := open(t, connection)
			if kept := depth(t, channel, name); kept != 300 {
				t.Fatalf("%d kept", kept)
			}
			all := read(t, connection, name, "first")
			takes(t, all, 0, 300)
			put(t, channel, "", name, numbers(300, 310)...)
			takes(t, all, 300, 310)
			takes(t, read(t, connection, name, 150), 150, 310)
		})
	}
}
