/** Calls whose request does not arrive in time are ended: a client that sends slowly holds nothing up. */
import {
  ResponderBuilder,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
  status,
} from '@grpc/grpc-js';

/** @param ms from the headers of a call to its whole message */
export const receiveTimeout =
  (ms: number): ServerInterceptor =>
  (_method, call) => {
    let timer: NodeJS.Timeout | undefined;
    const stop = (): void => clearTimeout(timer);
    const responder = new ResponderBuilder().withStart((next) => {
      const listener = new ServerListenerBuilder()
        .withOnReceiveMetadata((metadata, pass) => {
          timer = setTimeout(() => {
            own.sendStatus({
              code: status.DEADLINE_EXCEEDED,
              details: `the request did not arrive within ${ms} ms.`,
            });
          }, ms);
          pass(metadata);
        })
        .withOnReceiveMessage((message, pass) => {
          stop();
          pass(message);
        })
        .withOnCancel(stop)
        .build();
      next(listener);
    });
    const own = new ServerInterceptingCall(call, responder.build());
    return own;
  };
