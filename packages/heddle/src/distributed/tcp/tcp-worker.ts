/** The thread that exchanges bytes with the other ranks while the main thread waits. */
import { workerData } from 'node:worker_threads';
import { DistributedError } from '../../core/errors.js';
import { exchange } from './exchange.js';
import { Links } from './links.js';
import type { TcpAnswer, TcpOrder, TcpWorkerData } from './messages.js';

const { rank, worldSize, host, port, answers } = workerData as TcpWorkerData;
const links = new Links(rank, worldSize);

async function obey(order: TcpOrder): Promise<TcpAnswer> {
  switch (order.order) {
    case 'listen':
      return { address: await links.listen(host) };
    case 'connect':
      await links.connect(order.addresses, order.timeout);
      return {};
    case 'call':
      await Promise.race([exchange(links, order.call), links.failed]);
      return {};
    case 'leave':
      await links.leave();
      return {};
  }
}

port.on('message', async (order: TcpOrder) => {
  let answer: TcpAnswer;
  try {
    answer = await obey(order);
  } catch (error) {
    const { message } = error as Error;
    links.abort(new DistributedError(message));
    answer = { error: message };
  }
  port.postMessage(answer);
  Atomics.add(answers, 0, 1);
  Atomics.notify(answers, 0);
});
