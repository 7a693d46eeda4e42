module fourfold/conformance/amqp

go 1.24

require (
	fourfold/conformance/support v0.0.0
	github.com/rabbitmq/amqp091-go v1.16.0
)

replace fourfold/conformance/support => ../../support/go
