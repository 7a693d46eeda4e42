// The codecs that kafkajs leaves to others, plugged in.
'use strict';

const lz4 = require('lz4-napi');
const { CompressionCodecs, CompressionTypes } = require('kafkajs');
const SnappyCodec = require('kafkajs-snappy');
const { ZstdCodec } = require('zstd-codec');

CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec;
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: (data) => lz4.decompressFrame(data),
});

const zstd = new Promise((resolve) => ZstdCodec.run((binding) => resolve(new binding.Streaming())));
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from((await zstd).compress(encoder.buffer)),
  decompress: async (data) => Buffer.from((await zstd).decompress(data)),
});

module.exports = { CompressionTypes };
