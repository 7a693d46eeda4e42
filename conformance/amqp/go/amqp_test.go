// What amqp091-go, the Go client of the RabbitMQ team, is promised.
package amqp

import (
	"context"
	"fmt"
	"testing"
	"time"

	"fourfold/conformance/support"

	amqp "github.com/rabbitmq/amqp091-go"
)

const soon = 30 * time.Second

func dial(t *testing.T, b *fourfold.Broker) *amqp.Channel {
	t.Helper()
	connection, err := amqp.Dial(b.AMQP())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return open(t, connection)
}

func open(t *testing.T, connection *amqp.Connection) *amqp.Channel {
	t.Helper()
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return channel
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func declare(t *testing.T, channel *amqp.Channel, queue string) {
	t.Helper()
	_, err := channel.QueueDeclare(queue, true, false, false, false, nil)
	must(t, err)
}

// put publishes with confirms and waits for all of them.
func put(t *testing.T, channel *amqp.Channel, exchange, key string, bodies ...string) {
	t.Helper()
	must(t, channel.Confirm(false))
	var waiting []*amqp.DeferredConfirmation
	for _, body := range bodies {
		message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)}
		one, err := channel.PublishWithDeferredConfirm(exchange, key, false, false, message)
		must(t, err)
		waiting = append(waiting, one)
	}
	within, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for _, one := range waiting {
		acked, err := one.WaitContext(within)
		if err != nil || !acked {
			t.Fatalf("not confirmed: %v", err)
		}
	}
}

func take(t *testing.T, from <-chan amqp.Delivery) amqp.Delivery {
	t.Helper()
	select {
	case one, more := <-from:
		if !more {
			t.Fatal("the deliveries have ended")
		}
		return one
	case <-time.After(soon):
		t.Fatal("no delivery")
	}
	panic("unreachable")
}

func consume(t *testing.T, channel *amqp.Channel, queue string) <-chan amqp.Delivery {
	t.Helper()
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	must(t, err)
	return deliveries
}

func depth(t *testing.T, channel *amqp.Channel, queue string) int {
	t.Helper()
	state, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	must(t, err)
	return state.Messages
}

func numbers(from, to int) (all []string) {
	for n := from; n < to; n++ {
		all = append(all, fmt.Sprint(n))
	}
	return all
}

func TestConfirmedMessagesAreDeliveredInOrderAndAcknowledged(t *testing.T) {
	b := fourfold.Start(t)
	channel, name := dial(t, b), fourfold.Name(t)
	declare(t, channel, name)
	put(t, channel, "", name, numbers(0, 500)...)
	must(t, channel.Qos(50, 0, false))
	deliveries := consume(t, channel, name)
	for n := range 500 {
		one := take(t, deliveries)
		if string(one.Body) != fmt.Sprint(n) || one.Redelivered {
			t.Fatalf("%s (redelivered %v) instead of %d", one.Body, one.Redelivered, n)
		}
		must(t, one.Ack(false))
	}
	if left := depth(t, channel, name); left != 0 {
		t.Fatalf("%d left", left)
	}
}

func TestConfirmsAreNumberedFromOneWithoutGaps(t *testing.T) {
	b := fourfold.Start(t)
	channel, name := dial(t, b), fourfold.Name(t)
	declare(t, channel, name)
	must(t, channel.Confirm(false))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, 300))
	for n := range 300 {
		message := amqp.Publishing{DeliveryMode: uint8(1 + n%2), Body: []byte("x")}
		must(t, channel.PublishWithContext(t.Context(), "", name, false, false, message))
	}
	for n := range 300 {
		select {
		case one := <-confirms:
			if !one.Ack || one.DeliveryTag != uint64(n+1) {
				t.Fatalf("%+v instead of ack %d", one, n+1)
			}
		case <-time.After(soon):
			t.Fatalf("%d confirms instead of 300", n)
		}
	}
}

func TestReturnsComeBeforeTheirAcks(t *testing.T) {
	b := fourfold.Start(t)
	channel, name := dial(t, b), fourfold.Name(t)
	declare(t, channel, name)
	must(t, channel.Confirm(false))
	// One unbuffered listener each: the client's reader hands them over in the order in which the broker sent them.
	returns, confirms := channel.NotifyReturn(make(chan amqp.Return)), channel.NotifyPublish(make(chan amqp.Confirmation))
	go func() {
		for n := range 100 {
			key := name
			if n%2 == 1 {
				key = fmt.Sprintf("%s-nowhere-%d", name, n)
			}
			channel.PublishWithContext(context.Background(), "", key, true, false, amqp.Publishing{Body: []byte(fmt.Sprint(n))})
		}
	}()
	returned := map[string]bool{}
	for acks := 0; acks < 100; {
		select {
		case one := <-returns:
			if one.ReplyCode != amqp.NoRoute || one.ReplyText != "NO_ROUTE" {
				t.Fatalf("%d %s", one.ReplyCode, one.ReplyText)
			}
			returned[string(one.Body)] = true
		case one := <-confirms:
			acks++
			n := int(one.DeliveryTag) - 1
			if !one.Ack || n%2 == 1 && !returned[fmt.Sprint(n)] {
				t.Fatalf("the ack of %d came before its return", n)
			}
		case <-time.After(soon):
			t.Fatalf("%d acks, %d returns", acks, len(returned))
		}
	}
	if len(returned) != 50 {
		t.Fatalf("%d returns", len(returned))
	}
}

func TestNackedMessagesTakeTheirOldPlaces(t *testing.T) {
	b := fourfold.Start(t)
	channel, name := dial(t, b), fourfold.Name(t)
	declare(t, channel, name)
	put(t, channel, "", name, "m1", "m2", "m3", "m4", "m5", "m6")
	must(t, channel.Qos(5, 0, false))
	deliveries := consume(t, channel, name)
	var last amqp.Delivery
	for n := range 5 {
		if one := take(t, deliveries); n == 2 {
			last = one
		}
	}
	must(t, last.Nack(true, true))
	for _, wanted := range []string{"m1", "m2", "m3"} {
		if one := take(t, deliveries); string(one.Body) != wanted || !one.Redelivered {
			t.Fatalf("%s (redelivered %v) instead of %s", one.Body, one.Redelivered, wanted)
		}
	}
	must(t, channel.Ack(0, true))
	if one := take(t, deliveries); string(one.Body) != "m6" || one.Redelivered {
		t.Fatalf("%s (redelivered %v) instead of m6", one.Body, one.Redelivered)
	}
}

func TestADeletedQueueCancelsItsConsumers(t *testing.T) {
	b := fourfold.Start(t)
	channel, name := dial(t, b), fourfold.Name(t)
	declare(t, channel, name)
	cancels := channel.NotifyCancel(make(chan string, 1))
	_, err := channel.Consume(name, "tag", false, false, false, false, nil)
	must(t, err)
	if _, err := dial(t, b).QueueDelete(name, false, false, false); err != nil {
		t.Fatal(err)
	}
	select {
	case tag := <-cancels:
		if tag != "tag" {
			t.Fatal(tag)
		}
	case <-time.After(soon):
		t.Fatal("no cancel")
	}
	must(t, channel.Cancel("tag", false))
}

func TestErrorsNameTheirCodeAndReason(t *testing.T) {
	b := fourfold.Start(t)
	connection, err := amqp.Dial(b.AMQP())
	must(t, err)
	defer connection.Close()
	name := fourfold.Name(t)
	declare(t, open(t, connection), name)
	cases := []struct {
		code int
		text string
		act  func(*amqp.Channel) error
	}{
		{404, "NOT_FOUND - no queue 'nope' in vhost '/'", func(c *amqp.Channel) error {
			_, err := c.QueueDeclarePassive("nope", false, false, false, false, nil)
			return err
		}},
		{406, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue '" + name + "' in vhost '/': received 'false' but current is 'true'", func(c *amqp.Channel) error {
			_, err := c.QueueDeclare(name, false, false, false, false, nil)
			return err
		}},
		{403, "ACCESS_REFUSED - queue name 'amq.x' contains reserved prefix 'amq.*'", func(c *amqp.Channel) error {
			_, err := c.QueueDeclare("amq.x", false, false, false, false, nil)
			return err
		}},
		{404, "NOT_FOUND - no exchange 'nope' in vhost '/'", func(c *amqp.Channel) error {
			return c.QueueBind(name, "k", "nope", false, nil)
		}},
	}
	for _, one := range cases {
		err, is := one.act(open(t, connection)).(*amqp.Error)
		if !is || err.Code != one.code || err.Reason != one.text {
			t.Errorf("%+v instead of %d %s", err, one.code, one.text)
		}
	}
	if connection.IsClosed() {
		t.Fatal("a channel's error closed the connection")
	}
}

func TestManyChannelsOfOneConnectionWorkSideBySide(t *testing.T) {
	b := fourfold.Start(t)
	connection, err := amqp.Dial(b.AMQP())
	must(t, err)
	defer connection.Close()
	name := fourfold.Name(t)
	done := make(chan error, 50)
	for n := range 50 {
		go func() {
			done <- func() error {
				channel, err := connection.Channel()
				if err != nil {
					return err
				}
				queue := fmt.Sprintf("%s-%d", name, n)
				if _, err := channel.QueueDeclare(queue, false, true, false, false, nil); err != nil {
					return err
				}
				deliveries, err := channel.Consume(queue, "", true, false, false, false, nil)
				if err != nil {
					return err
				}
				for m := range 20 {
					body := fmt.Sprint(m)
					if err := channel.PublishWithContext(context.Background(), "", queue, false, false, amqp.Publishing{Body: []byte(body)}); err != nil {
						return err
					}
					select {
					case one := <-deliveries:
						if string(one.Body) != body {
							return fmt.Errorf("%s instead of %s", one.Body, body)
						}
					case <-time.After(soon):
						return fmt.Errorf("channel %d: no delivery %d", n, m)
					}
				}
				return nil
			}()
		}()
	}
	for range 50 {
		must(t, <-done)
	}
}

func TestConfirmedMessagesSurvive(t *testing.T) {
	for how, end := range map[string]func(*fourfold.Broker){"stop": (*fourfold.Broker).Stop, "kill": (*fourfold.Broker).Kill} {
		t.Run(how, func(t *testing.T) {
			b := fourfold.Start(t)
			channel, name := dial(t, b), fourfold.Name(t)
			must(t, channel.ExchangeDeclare(name, "fanout", true, false, false, false, nil))
			declare(t, channel, name)
			must(t, channel.QueueBind(name, "", name, false, nil))
			put(t, channel, name, "", numbers(0, 300)...)
			must(t, channel.Qos(10, 0, false))
			take(t, consume(t, channel, name)).Ack(false)
			if left := depth(t, channel, name); left > 290 {
				t.Fatalf("%d waiting", left)
			}
			end(b)
			b.Restart()
			channel = dial(t, b)
			deliveries := consume(t, channel, name)
			for n := 1; n < 300; n++ {
				one := take(t, deliveries)
				if string(one.Body) != fmt.Sprint(n) {
					t.Fatalf("%s instead of %d", one.Body, n)
				}
				if n < 10 && !one.Redelivered {
					t.Fatalf("%d had been delivered before and does not say so", n)
				}
				must(t, one.Ack(false))
			}
			put(t, channel, name, "", "after")
			if one := take(t, deliveries); string(one.Body) != "after" {
				t.Fatal(string(one.Body))
			}
		})
	}
}

// What a client of this library can ask for that is refused: its connection ends, others go on.
func TestBadInputEndsItsConnectionAndNoOther(t *testing.T) {
	b := fourfold.Start(t)
	other, name := dial(t, b), fourfold.Name(t)
	declare(t, other, name)
	connection, err := amqp.Dial(b.AMQP())
	must(t, err)
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	channel := open(t, connection)
	must(t, channel.Publish("", name, false, true, amqp.Publishing{Body: []byte("at once")}))
	select {
	case why := <-closed:
		if why.Code != 540 {
			t.Fatalf("immediate is answered %v", why)
		}
	case <-time.After(soon):
		t.Fatal("immediate is not refused")
	}
	put(t, other, "", name, "still here")
	if count := depth(t, other, name); count != 1 {
		t.Fatalf("%d messages", count)
	}
}
